// FA2's launchers, one source file a pass and dtype so that they compile side by side. Host code.
#pragma once

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::fa2 {

// Each takes a problem and tiling for which fa2's `fault` is empty. Throws CudaError.
void forward_fp16(const Problem& p, const Tiling& t, const Tensors& x, void* stream);
void forward_bf16(const Problem& p, const Tiling& t, const Tensors& x, void* stream);
void backward_fp16(const Problem& p, const Tiling& t, const Tensors& x, void* stream);
void backward_bf16(const Problem& p, const Tiling& t, const Tensors& x, void* stream);

}  // namespace flashsim::gpu::fa2

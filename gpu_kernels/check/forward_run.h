// One forward pass on the GPU, from numbers to numbers.
#pragma once

#include <vector>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

/// O, (batch, heads_q, seqlen_q, head_dim), of contiguous q, k and v, which are rounded to the problem's
/// dtype; in e4m3 to fp16, for the kernel quantises them itself, and O is fp16. Throws Unsupported,
/// CudaError.
std::vector<double> forward_on_gpu(const Kernel& kernel, const Problem& p, const Tiling& t,
                                   const std::vector<double>& q, const std::vector<double>& k,
                                   const std::vector<double>& v);

}  // namespace flashsim::gpu

// The bf16 instances of the backward kernels.
#include "gpu_kernels/fa2/backward.cuh"
#include "gpu_kernels/fa2/fa2.h"

namespace flashsim::gpu::fa2 {
void backward_bf16(const Problem& p, const Tiling& t, const Tensors& x, void* stream) {
  launch_chosen_backward<__nv_bfloat16>(p, t, x, stream);
}
}  // namespace flashsim::gpu::fa2

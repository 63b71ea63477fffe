// The bf16 instances of the forward kernel.
#include "gpu_kernels/fa2/fa2.h"
#include "gpu_kernels/fa2/forward_chosen.cuh"

namespace flashsim::gpu::fa2 {
void forward_bf16(const Problem& p, const Tiling& t, const Tensors& x, void* stream) {
  launch_chosen_forward<__nv_bfloat16>(p, t, x, stream);
}
}  // namespace flashsim::gpu::fa2

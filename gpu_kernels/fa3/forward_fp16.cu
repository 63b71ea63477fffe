#include "gpu_kernels/fa3/forward.cuh"

namespace flashsim::gpu::fa3 {

Instance forward_fp16(int head_dim, bool masked) {
  if (head_dim == 64) return instance<Config, __half, 64>(masked);
  return head_dim == 128 ? instance<Config, __half, 128>(masked) : instance<Config, __half, 256>(masked);
}

}  // namespace flashsim::gpu::fa3

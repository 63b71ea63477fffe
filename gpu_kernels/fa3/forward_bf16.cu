#include "gpu_kernels/fa3/launch.cuh"

namespace flashsim::gpu::fa3 {

Instance forward_bf16(int head_dim, bool masked) { return forward_for<__nv_bfloat16>(head_dim, masked); }

}  // namespace flashsim::gpu::fa3

#include "gpu_kernels/fa3/launch.cuh"

namespace flashsim::gpu::fa3 {

Instance forward_fp16(int head_dim, bool masked) { return forward_for<__half>(head_dim, masked); }

}  // namespace flashsim::gpu::fa3

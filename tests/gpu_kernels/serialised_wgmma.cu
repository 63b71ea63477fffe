// Reads an accumulator while its wgmma is in flight. ptxas waits after every wgmma then, and says so (C75xx):
// fa3_compiler_messages checks that such code fails the build.
#include "gpu_kernels/fa3/wgmma.cuh"

using namespace flashsim::gpu::fa3;

__global__ void serialised(float* out, unsigned long long a, unsigned long long b) {
  float d[32] = {};
  for (int i = 0; i < 4; ++i) {
    wgmma_fence();
    Wgmma<64>::ss<__half>(d, a, b, 1);
    wgmma_commit();
    d[0] += out[i];
  }
  wgmma_wait<0>();
  for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = d[i];
}

#include "gpu_kernels/measure/sides.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {
namespace {

constexpr int stride = 8192 / 4, repeats = 8;

/// One thread a block. Each block begins at a line of its own, so that few meet at one.
__global__ void latency_kernel(unsigned* memory, int lines, unsigned* cycles, unsigned* sm) {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  sm[blockIdx.x] = id;
  const int first = int(std::int64_t(blockIdx.x) * lines / gridDim.x);
  for (int k = 0; k < lines; ++k) {
    const int line = (first + k) % lines;
    unsigned fastest = ~0u;
    for (int r = 0; r < repeats; ++r) {
      const unsigned start = unsigned(clock());
      const unsigned old = atomicAdd(memory + std::size_t(line) * stride, 0u);
      if (old != 0) return;  // never: memory is all zeros. The branch waits for the answer
      fastest = min(fastest, unsigned(clock()) - start);
    }
    cycles[std::size_t(blockIdx.x) * lines + line] = fastest;
  }
}

/// Stays until all others have started: cycles that are more than a launch takes.
__global__ void place_kernel(unsigned* sm) {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  sm[blockIdx.x] = id;
  const long long start = clock64();
  while (clock64() - start < 1'000'000) {}
}

int most_shared_bytes() {
  int device = 0, bytes = 0;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

}  // namespace

std::vector<SmLatencies> measure_sm_latencies(int lines) {
  int device = 0, sms = 0;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  const auto blocks = static_cast<std::size_t>(sms), count = static_cast<std::size_t>(lines);
  DeviceBuffer memory(count * stride * 4), cycles(blocks * count * 4), sm(blocks * 4);
  memory.fill_bytes(0);
  for (int run = 0; run < 2; ++run)  // the first one brings the lines to L2
    launch("latencies", latency_kernel, dim3(unsigned(sms)), 1, most_shared_bytes(), nullptr,
           static_cast<unsigned*>(memory.data()), lines, static_cast<unsigned*>(cycles.data()),
           static_cast<unsigned*>(sm.data()));
  std::vector<unsigned> host_cycles(blocks * count), host_sm(blocks);
  cycles.copy_to_host(host_cycles.data(), cycles.bytes());
  sm.copy_to_host(host_sm.data(), sm.bytes());
  std::vector<SmLatencies> all(blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    all[b].sm = static_cast<int>(host_sm[b]);
    all[b].cycles.assign(host_cycles.begin() + static_cast<std::ptrdiff_t>(b * count),
                         host_cycles.begin() + static_cast<std::ptrdiff_t>((b + 1) * count));
  }
  return all;
}

std::vector<int> sms_of_launch(int blocks) {
  const auto count = static_cast<std::size_t>(blocks);
  DeviceBuffer sm(count * 4);
  launch("places", place_kernel, dim3(unsigned(blocks)), 1, most_shared_bytes(), nullptr,
         static_cast<unsigned*>(sm.data()));
  std::vector<unsigned> host(count);
  sm.copy_to_host(host.data(), sm.bytes());
  return {host.begin(), host.end()};
}

}  // namespace flashsim::gpu

// Bandwidth by a copy and by a kernel that only reads, matrix products by cuBLAS, the clock by counting
// cycles.
#include "gpu_kernels/common/ceilings.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "cpu_reference/philox.h"
#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/cublas_library.h"
#include "gpu_kernels/common/event.h"
#include "gpu_kernels/common/rested_blocks.h"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {
namespace {

/// Reads n 16-byte words; the sum decides about a write that never happens, so that no load can be left out.
__global__ void read_all(const uint4* x, std::int64_t n, unsigned* never) {
  unsigned all = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
#pragma unroll 8
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const uint4 v = __ldcg(x + i);
    all |= v.x | v.y | v.z | v.w;
  }
  if (all != 0) *never = all;  // the buffer holds zeros
}

/// N(0, 1) by Box and Muller.
template <class T>
__global__ void fill_normal(T* x, std::int64_t n, unsigned stream) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const PhiloxWords w = philox4x32_10(stream, unsigned(i), unsigned(i >> 32), 0, 0);
    const float radius = sqrtf(-2 * logf((w.word[0] + 1.f) * 0x1p-32f));
    x[i] = static_cast<T>(radius * cospif(2 * w.word[1] * 0x1p-32f));
  }
}

/// Cycles and nanoseconds of a loop of about `cycles`.
__global__ void count_cycles(long long cycles, long long* result) {
  const long long start = clock64();
  long long begin, end;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  while (clock64() - start < cycles) {}
  const long long stop = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
  result[0] = stop - start;
  result[1] = end - begin;
}

template <class Run>
double median_seconds(int repeats, Run run) {
  Event start, stop;
  std::vector<double> seconds = in_rested_blocks(2, repeats, [&] {
    start.record();
    run();
    stop.record();
    stop.wait();
    return stop.seconds_since(start);
  });
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

template <class T>
double matmul_flops(cublasHandle_t handle, cudaDataType_t type) {
  constexpr int n = 8192;
  constexpr std::int64_t elements = std::int64_t{n} * n;
  DeviceBuffer a(elements * sizeof(T)), b(elements * sizeof(T)), c(elements * sizeof(T));
  fill_normal<<<1024, 256>>>(static_cast<T*>(a.data()), elements, 1);
  fill_normal<<<1024, 256>>>(static_cast<T*>(b.data()), elements, 2);
  FLASHSIM_CUDA_CHECK(cudaGetLastError());
  const float one = 1, zero = 0;
  const double seconds = median_seconds(20, [&] {
    check_cublas(cublas_library().gemm_strided_batched(
                     handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a.data(), type, n, 0, b.data(), type, n,
                     0, &zero, c.data(), type, n, 0, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                 "cublasGemmStridedBatchedEx");
  });
  return 2.0 * n * n * n / seconds;
}

}  // namespace

Ceilings measure_ceilings() {
  Ceilings result;
  {
    constexpr std::int64_t bytes = std::int64_t{4} << 30;
    DeviceBuffer all(bytes), never(16);
    all.fill_bytes(0);
    char* const half = static_cast<char*>(all.data()) + bytes / 2;
    result.copy_bytes_per_second =
        bytes / median_seconds(9, [&] {
          FLASHSIM_CUDA_CHECK(cudaMemcpyAsync(half, all.data(), bytes / 2, cudaMemcpyDeviceToDevice));
        });
    for (const int blocks_per_sm : {8, 16, 32}) {
      const int grid = blocks_per_sm * device_info().sm_count;
      const double seconds = median_seconds(9, [&] {
        launch("read ceiling", read_all, dim3(unsigned(grid)), 512, 0, nullptr,
               static_cast<const uint4*>(all.data()), bytes / 16, static_cast<unsigned*>(never.data()));
      });
      result.read_bytes_per_second = std::max(result.read_bytes_per_second, bytes / seconds);
    }
  }
  const CublasHandle handle = create_cublas_handle();
  result.bf16_flops_per_second = matmul_flops<__nv_bfloat16>(handle.get(), CUDA_R_16BF);
  result.fp16_flops_per_second = matmul_flops<__half>(handle.get(), CUDA_R_16F);

  int device = 0, kilohertz = 0;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device));
  result.sm_clock_mhz = kilohertz / 1000;
  FLASHSIM_CUDA_CHECK(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, device));
  result.memory_clock_mhz = kilohertz / 1000;

  DeviceBuffer counts(2 * sizeof(long long));
  launch("clock", count_cycles, dim3(1), 1, 0, nullptr, 2000000LL, static_cast<long long*>(counts.data()));
  long long host[2] = {0, 1};
  counts.copy_to_host(host, sizeof host);
  result.sm_clock_mhz_under_load = 1e3 * static_cast<double>(host[0]) / static_cast<double>(host[1]);
  return result;
}

}  // namespace flashsim::gpu

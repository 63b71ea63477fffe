#include "gpu_kernels/measure/streams.h"

#include <cuda_runtime.h>

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/ptx.cuh"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {
namespace {

constexpr int threads = 256, bulk_bytes = 16 * 1024;

__device__ void keep(unsigned sum, void* sink) {
  // True for no data in practice, but the compiler cannot know.
  if (sum == 0x9e3779b9u) atomicAdd(static_cast<unsigned long long*>(sink), 1ull);
}

__global__ void read_kernel(const uint4* from, std::size_t n, int repeats, void* sink) {
  unsigned sum = 0;
  for (int r = 0; r < repeats; ++r) {
    // Whole lines of 128 bytes: from the middle of a sector on, each warp would touch one sector more.
    const std::size_t shift = std::size_t(r) * 40968 % n;
    for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < n;
         i += std::size_t(gridDim.x) * threads) {
      const uint4 v = __ldcg(from + (i + shift < n ? i + shift : i + shift - n));
      sum += v.x ^ v.y ^ v.z ^ v.w;
    }
  }
  keep(sum, sink);
}

__global__ void copy_kernel(const uint4* from, uint4* to, std::size_t n) {
  for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < n;
       i += std::size_t(gridDim.x) * threads)
    to[i] = __ldcg(from + i);
}

__global__ void reduce_kernel(float* to, std::size_t n) {
  for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < n;
       i += std::size_t(gridDim.x) * threads)
    atomicAdd(to + i, 1.f);  // the result is unused: a RED
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define FLASHSIM_BULK 1
#endif

/// One elected thread moves everything; `tiles` is dealt over the grid.
__global__ void bulk_copy_kernel(const char* from, char* to, int tiles) {
#ifdef FLASHSIM_BULK
  __shared__ alignas(128) char tile[bulk_bytes];
  __shared__ alignas(8) std::uint64_t arrived;
  if (threadIdx.x != 0) return;
  const uint32_t bar = shared_address(&arrived), shared = shared_address(tile);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  int phase = 0;
  for (int t = blockIdx.x; t < tiles; t += gridDim.x, phase ^= 1) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bulk_bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared),
        "l"(from + std::size_t(t) * bulk_bytes), "r"(bulk_bytes), "r"(bar)
        : "memory");
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra "
        "again;\n}" ::"r"(bar),
        "r"(phase)
        : "memory");
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + std::size_t(t) * bulk_bytes),
        "r"(shared), "r"(bulk_bytes)
        : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
#endif
}

__global__ void bulk_reduce_kernel(char* to, int tiles) {
#ifdef FLASHSIM_BULK
  __shared__ alignas(128) float tile[bulk_bytes / 4];
  for (int i = threadIdx.x; i < bulk_bytes / 4; i += blockDim.x) tile[i] = 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                     to + std::size_t(t) * bulk_bytes),
                 "r"(shared_address(tile)), "r"(bulk_bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
#endif
}

/// Four uniform 16-bit numbers from one hash; their sum, centred and scaled to deviation 1.
template <class T>
__global__ void normal_kernel(T* to, std::size_t n, std::uint64_t seed) {
  for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < n;
       i += std::size_t(gridDim.x) * threads) {
    std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull ^ seed * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    const int sum = int(x & 0xffff) + int(x >> 16 & 0xffff) + int(x >> 32 & 0xffff) + int(x >> 48);
    to[i] = T((float(sum) - 2 * 65535.f) * (1.7320508f / 65536));
  }
}

int blocks() {
  int device = 0, sms = 0;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  return 8 * sms;
}

void needs_bulk_copies() {
  int device = 0, major = 0;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  if (major != 9)
    throw Unsupported("bulk copies are compiled for compute capability 9.0; this device has " +
                      std::to_string(major) + ".x");
}

}  // namespace

void read_stream(const void* from, std::size_t bytes, void* sink) { reread_stream(from, bytes, 1, sink); }

void reread_stream(const void* from, std::size_t bytes, int repeats, void* sink) {
  launch("reread", read_kernel, dim3(blocks()), threads, 0, nullptr, static_cast<const uint4*>(from),
         bytes / 16, repeats, sink);
}

void copy_stream(const void* from, void* to, std::size_t bytes) {
  launch("copy", copy_kernel, dim3(blocks()), threads, 0, nullptr, static_cast<const uint4*>(from),
         static_cast<uint4*>(to), bytes / 16);
}

void reduce_stream(void* to, std::size_t bytes) {
  launch("reduce", reduce_kernel, dim3(blocks()), threads, 0, nullptr, static_cast<float*>(to), bytes / 4);
}

void bulk_copy_stream(const void* from, void* to, std::size_t bytes) {
  needs_bulk_copies();
  launch("bulk copy", bulk_copy_kernel, dim3(blocks()), 32, 0, nullptr, static_cast<const char*>(from),
         static_cast<char*>(to), static_cast<int>(bytes / bulk_bytes));
}

void bulk_reduce_stream(void* to, std::size_t bytes) {
  needs_bulk_copies();
  launch("bulk reduce", bulk_reduce_kernel, dim3(blocks()), threads, 0, nullptr, static_cast<char*>(to),
         static_cast<int>(bytes / bulk_bytes));
}

void fill_normal(void* to, std::size_t count, Dtype dtype, std::uint64_t seed) {
  if (dtype == Dtype::fp16)
    launch("fill", normal_kernel<__half>, dim3(blocks()), threads, 0, nullptr, static_cast<__half*>(to),
           count, seed);
  else
    launch("fill", normal_kernel<__nv_bfloat16>, dim3(blocks()), threads, 0, nullptr,
           static_cast<__nv_bfloat16*>(to), count, seed);
}

}  // namespace flashsim::gpu

// CUDA errors as exceptions, and (in .cu files) kernel launches that report theirs. Host code only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace flashsim::gpu {

/// Throws CudaError: "cudaMalloc(&data, bytes) failed: out of memory (device.cu:12)".
[[noreturn]] void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line);

/// Throws CudaError unless the CUDA runtime call succeeds.
#define FLASHSIM_CUDA_CHECK(call)                                                   \
  do {                                                                              \
    const cudaError_t flashsim_error = (call);                                      \
    if (flashsim_error != cudaSuccess)                                              \
      ::flashsim::gpu::throw_cuda_error(flashsim_error, #call, __FILE__, __LINE__); \
  } while (false)

#ifdef __CUDACC__
/// Launches `kernel<<<grid, threads, shared_bytes, stream>>>(arguments...)`; `name` is what an error calls
/// it. Asks for more than 48 KiB of dynamic shared memory where needed. Throws CudaError.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, int threads, std::size_t shared_bytes,
            void* stream, const Arguments&... arguments) {
  if (shared_bytes > 48 * 1024) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(shared_bytes));
    if (error != cudaSuccess) throw_cuda_error(error, name, __FILE__, __LINE__);
  }
  kernel<<<grid, threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(Parameters(arguments)...);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw_cuda_error(error, name, __FILE__, __LINE__);
}
#endif

}  // namespace flashsim::gpu

// Devices, memory and timing behind gpu_kernels/kernels.h.
#include <cuda_runtime.h>

#include <utility>

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/copy.h"
#include "gpu_kernels/common/event.h"
#include "gpu_kernels/common/rested_blocks.h"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {
namespace {

/// Exists so that the runtime can say whether this build has code for the device.
__global__ void probe() {}

}  // namespace

void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line) {
  throw CudaError(std::string(call) + " failed: " + cudaGetErrorString(error) + " (" + file + ":" +
                  std::to_string(line) + ")");
}

std::string why_no_gpu() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();  // a later launch must not report this one
    return std::string("no GPU can be used: ") + cudaGetErrorString(error) +
           "; install an NVIDIA driver for CUDA 12.8 or newer";
  }
  if (count == 0) return "the NVIDIA driver finds no GPU";
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, probe) != cudaSuccess) {
    cudaGetLastError();
    cudaDeviceProp device;
    FLASHSIM_CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    return std::string("the kernels were not compiled for this ") + device.name + " (sm_" +
           std::to_string(device.major * 10 + device.minor) +
           "); configure with -DFLASHSIM_CUDA_ARCHITECTURES that includes it";
  }
  return {};
}

DeviceInfo device_info() {
  const std::string reason = why_no_gpu();
  if (!reason.empty()) throw CudaError(reason);
  int device = 0;
  cudaDeviceProp properties;
  DeviceInfo info;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  FLASHSIM_CUDA_CHECK(cudaDriverGetVersion(&info.driver_version));
  FLASHSIM_CUDA_CHECK(cudaRuntimeGetVersion(&info.runtime_version));
  info.name = properties.name;
  info.sm_count = properties.multiProcessorCount;
  info.compute_capability = properties.major * 10 + properties.minor;
  info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  info.l2_bytes = properties.l2CacheSize;
  info.shared_memory_per_block = static_cast<int>(properties.sharedMemPerBlockOptin);
  info.shared_memory_per_sm = static_cast<int>(properties.sharedMemPerMultiprocessor);
  return info;
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) FLASHSIM_CUDA_CHECK(cudaMalloc(&data_, bytes));
}
DeviceBuffer::DeviceBuffer(DeviceBuffer&& o) noexcept
    : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  return *this;
}
DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

namespace {
void must_fit(std::size_t bytes, std::size_t room) {
  if (bytes > room)
    throw CudaError("a copy of " + std::to_string(bytes) + " bytes does not fit a device buffer of " +
                    std::to_string(room));
}
}  // namespace

void DeviceBuffer::copy_from_host(const void* host, std::size_t bytes) {
  must_fit(bytes, bytes_);
  copy_to_device(data_, host, bytes);
}
void DeviceBuffer::copy_to_host(void* host, std::size_t bytes) const {
  must_fit(bytes, bytes_);
  copy_from_device(host, data_, bytes);
}
void DeviceBuffer::fill_bytes(int value) {
  if (bytes_ > 0) FLASHSIM_CUDA_CHECK(cudaMemset(data_, value, bytes_));
}

void copy_to_device(void* device, const void* host, std::size_t bytes) {
  FLASHSIM_CUDA_CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}
void copy_from_device(void* host, const void* device, std::size_t bytes) {
  FLASHSIM_CUDA_CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

void synchronize() { FLASHSIM_CUDA_CHECK(cudaDeviceSynchronize()); }

std::vector<double> time_launches(const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass,
                                  const Tensors& x, int warmup, int repeats, bool flush_l2) {
  DeviceBuffer flush;
  if (flush_l2) flush = DeviceBuffer(static_cast<std::size_t>(3 * device_info().l2_bytes));
  Event start, stop;
  int flushes = 0;
  return in_rested_blocks(warmup, repeats, [&] {
    if (flush_l2) FLASHSIM_CUDA_CHECK(cudaMemsetAsync(flush.data(), ++flushes & 0xff, flush.bytes()));
    start.record();
    kernel.launch(p, t, pass, x, nullptr);
    stop.record();
    stop.wait();
    return stop.seconds_since(start);
  });
}

}  // namespace flashsim::gpu

// What the main functions of the CUDA exercises share. Answers begin with a status.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "lessons/exercises/given/calls.h"

namespace given {

enum class GpuStatus : int { ok = 0, no_gpu = 1, failed = 2 };

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

/// Device memory with `n` floats, copied from `from` or all NaN.
class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t n) : n_(n) {
    cudaMalloc(&data_, n * sizeof(float));
    cudaMemset(data_, 0xff, n * sizeof(float));
  }
  explicit DeviceFloats(const std::vector<float>& from) : DeviceFloats(from.size()) {
    cudaMemcpy(data_, from.data(), n_ * sizeof(float), cudaMemcpyHostToDevice);
  }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;
  ~DeviceFloats() { cudaFree(data_); }
  float* get() const { return data_; }
  std::vector<float> read() const {
    std::vector<float> all(n_);
    cudaMemcpy(all.data(), data_, n_ * sizeof(float), cudaMemcpyDeviceToHost);
    return all;
  }

 private:
  float* data_ = nullptr;
  std::size_t n_;
};

/// Waits for the kernel; prints what CUDA reports. flashsim shows it.
inline GpuStatus finish() {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error == cudaSuccess) return GpuStatus::ok;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  return GpuStatus::failed;
}

inline bool receive(int fd, std::vector<float>& to) {
  return receive(fd, to.data(), to.size() * sizeof(float));
}
inline bool answer(int fd, const std::vector<float>& from) {
  return answer(fd, from.data(), from.size() * sizeof(float));
}

}  // namespace given

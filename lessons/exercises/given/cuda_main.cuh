// What the main functions of the CUDA exercises share. Answers begin with a status.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "lessons/exercises/given/calls.h"

namespace given {

/// The beginning of every answer.
struct Report {
  enum class Status : int { ok = 0, no_gpu = 1, failed = 2 };
  Status status = Status::ok;
  char words[124] = "";  ///< CUDA's, where status is not ok
  void fail(Status s, cudaError_t error) {
    status = s;
    std::snprintf(words, sizeof words, "%s", cudaGetErrorString(error));
  }
};

/// False where there is none; the report says what CUDA says.
inline bool has_gpu(Report& report) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) report.fail(Report::Status::no_gpu, error);
  return error == cudaSuccess;
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

/// Waits for the kernel; false where CUDA reports an error.
inline bool finish(Report& report) {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) report.fail(Report::Status::failed, error);
  return error == cudaSuccess;
}

inline bool receive(int fd, std::vector<float>& to) {
  return receive(fd, to.data(), to.size() * sizeof(float));
}
inline bool answer(int fd, const std::vector<float>& from) {
  return answer(fd, from.data(), from.size() * sizeof(float));
}

}  // namespace given

// A CUDA event that destroys itself. Host code of .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "gpu_kernels/common/check.h"

namespace flashsim::gpu {

class Event {
 public:
  Event() { FLASHSIM_CUDA_CHECK(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  void record() { FLASHSIM_CUDA_CHECK(cudaEventRecord(event_)); }
  void wait() { FLASHSIM_CUDA_CHECK(cudaEventSynchronize(event_)); }
  double seconds_since(const Event& start) const {
    float milliseconds = 0;
    FLASHSIM_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.event_, event_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace flashsim::gpu

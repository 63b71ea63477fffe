// Compares results that stay on the device, so that a thousand of them are compared in no time.
#pragma once

#include <cstdint>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

/// Counts the 32-bit words that differ, over any number of comparisons.
class DifferenceCount {
 public:
  DifferenceCount();
  /// Queues one comparison on the default stream. Buffers of the same size, a multiple of 4 bytes. Throws
  /// CudaError.
  void add(const DeviceBuffer& a, const DeviceBuffer& b);
  /// Waits for all of them.
  std::uint64_t words() const;

 private:
  DeviceBuffer count_;
};

}  // namespace flashsim::gpu

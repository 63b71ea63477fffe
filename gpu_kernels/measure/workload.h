// A kernel with everything it needs to be launched: device memory, filled with random numbers.
#pragma once

#include <random>
#include <vector>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

/// Allocates what `kernel` reads and writes for a problem, and fills inputs with values near N(0, 1) (the sum
/// of four uniform ones; the same on every run). For a backward pass the forward pass runs once, so that O,
/// LSE and the like are there. launch() may be called again and again, and does the same work.
class Workload {
 public:
  /// `place`: where in device memory the tensors lie to each other, which decides what shares the sets of L2;
  /// 0 is as the allocator has it, any other number has gaps of 0 to 30 MiB of its own between them. Throws
  /// Unsupported where the kernel does not compute this, and CudaError (out of memory, say).
  Workload(const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass, unsigned place = 0);
  void launch() const { kernel_.launch(p_, t_, pass_, tensors_, nullptr); }
  const Tensors& tensors() const { return tensors_; }
  /// Device memory it holds, in bytes.
  std::size_t bytes() const;

 private:
  void leave_gap();
  void* allocate(std::size_t bytes);
  void* random(std::int64_t count, Dtype dtype);

  Kernel kernel_;
  Problem p_;
  Tiling t_;
  Pass pass_;
  Tensors tensors_;
  std::mt19937 gap_;
  unsigned place_;
  std::vector<DeviceBuffer> buffers_, gaps_;
};

}  // namespace flashsim::gpu

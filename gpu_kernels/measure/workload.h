// A kernel with everything it needs to be launched: device memory, filled with random numbers.
#pragma once

#include <cstddef>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

/// Where tensors lie in device memory, which decides what shares the sets of L2.
struct Layout {
  /// 0, 1, ...: another place for all of them.
  unsigned place = 0;
  /// 0 to 30 MiB of other memory between any two, other ones for each place, as if they had been allocated at
  /// different times; else they lie side by side.
  bool apart = false;
};

/// Allocates what `kernel` reads and writes for a problem as one piece of memory, tensors with rows of keys
/// first, then those with rows of queries; and fills inputs with values near N(0, 1) (the sum of four uniform
/// ones; the same on every run). For a backward pass the forward pass runs once, so that O, LSE and the like
/// are there. launch() may be called again and again, and does the same work.
class Workload {
 public:
  /// Throws Unsupported where the kernel does not compute this, and CudaError (out of memory, say).
  Workload(const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass, Layout layout = {});
  void launch() const { kernel_.launch(p_, t_, pass_, tensors_, nullptr); }
  const Tensors& tensors() const { return tensors_; }
  /// Device memory it holds, in bytes.
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  Kernel kernel_;
  Problem p_;
  Tiling t_;
  Pass pass_;
  Tensors tensors_;
  DeviceBuffer memory_;
};

}  // namespace flashsim::gpu

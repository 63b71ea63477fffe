// Times kernels: random data on the device, warm-up, medians, and what the time means.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu_kernels/common/ceilings.h"
#include "gpu_kernels/kernels.h"

namespace flashsim::cli {

struct BenchJob {
  const gpu::Kernel* kernel = nullptr;
  Problem problem;
  Tiling tiling;
  gpu::Pass pass = gpu::Pass::forward;
  std::string suite;
};

/// What bounds a kernel at best, and hence the figure that it is held against.
enum class Bound : std::uint8_t { matmul, read, copy };
Bound bound_of(const gpu::Kernel& kernel);

struct BenchResult {
  BenchJob job;
  int repeats = 0;
  double median = 0, fastest = 0, slowest = 0;  ///< seconds
  double flops = 0;  ///< of the products over visible keys: 4 d a pair forward, 10 d backward
  double bytes = 0;  ///< that must be read or written once
  double rate = 0;   ///< FLOP/s, or bytes/s where a bandwidth is the bound
  double share = 0;  ///< of the measured ceiling
};

/// Pairs of a query and a key that it sees, over all heads.
double visible_pairs(const Problem& p);

class Bench {
 public:
  Bench(const gpu::Ceilings& ceilings, int warmup, int repeats);
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench();

  /// Why the job cannot run here (support, memory); empty where it can.
  std::string fault(const BenchJob& job) const;
  /// L2 is flushed before each launch where the bound is a bandwidth. Takes fewer repeats of slow kernels, at
  /// least five. Throws CudaError.
  BenchResult run(const BenchJob& job);

 private:
  class Data;
  const gpu::Ceilings ceilings_;
  int warmup_, repeats_;
  std::unique_ptr<Data> data_;  ///< of the last problem
};

}  // namespace flashsim::cli

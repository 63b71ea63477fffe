// Hardware counters around kernels, read inside the process: plain C++17, no CUDA and no CUPTI type. Builds
// without CUDA and without CUPTI's headers; then the counters say that they are unavailable, and why.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

/// Counters cannot be read; the message says why and what to do about it.
class CountersUnavailable : public std::runtime_error {
 public:
  enum class Reason : std::uint8_t {
    no_gpu,         ///< no driver, no device, a build without CUDA
    no_cupti,       ///< built without CUPTI's headers, or its library is not found or too old
    not_permitted,  ///< the driver lets only administrators read counters
    busy,           ///< another profiler holds them
    not_supported,  ///< this GPU, virtual machine or sandbox gives none
    failed          ///< anything else; the message names the call
  };
  CountersUnavailable(Reason reason, const std::string& message)
      : std::runtime_error(message), reason_(reason) {}
  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

/// What one launch (or a pass of several kernels) did. Bytes; NaN where the GPU has no such counter.
struct Counts {
  double requested_read = 0;   ///< what the SMs received, TMA included
  double requested_write = 0;  ///< what the SMs sent: stores and reductions
  double l2_read = 0;          ///< requests of SMs that L2 served, after it merged those of neighbours
  double l2_write = 0;
  double l2_reduce = 0;
  double fabric = 0;  ///< crossed between the two partitions of L2
  double dram_read = 0;
  double dram_write = 0;
  double left_dirty = 0;  ///< written by a flush afterwards: the dirty lines that were left in L2
  double shared_wavefronts =
      0;  ///< passes of shared memory for loads and stores of threads, 128 bytes each at most
  double tensor_instructions = 0;  ///< warp-level matrix instructions
  double instructions = 0;         ///< of warps
  double seconds = 0;              ///< under the profiler, from a cold L2
};

/// The counters of the current device. Every launch is repeated until all counters were read; L2 is emptied
/// before each repeat, so it must do the same work again when launched again. Only one object at a time.
class Counters {
 public:
  /// Throws CountersUnavailable.
  Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  ~Counters();

  /// Everything that `launch` puts on the default stream, as one. Throws CountersUnavailable where reading
  /// fails, and what `launch` throws; the next measurement then starts anew.
  Counts measure(const std::function<void()>& launch);
  /// A kernel of the registry.
  Counts measure(const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass, const Tensors& x);

  const std::string& chip() const;  ///< e.g. "GH100"
  int repeats() const;              ///< launches a measurement takes

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

/// Empty where counters can be read here, else the reason and the remedy: `flashsim doctor` prints it. Opens
/// and closes a session, which takes a moment.
std::string why_no_counters();

/// How many launches the counters of Counts take on a chip ("GH100", "GA100"), found without a GPU. Throws
/// CountersUnavailable where CUPTI is missing or does not know the chip; `missing` gets the counters that the
/// chip lacks.
int repeats_on(const std::string& chip, std::vector<std::string>* missing = nullptr);

/// One point of the sweep that shows the effective capacity of L2.
struct SweepMeasurement {
  std::int64_t buffer_bytes = 0;
  double dram_read = 0, l2_read = 0, fabric = 0;  ///< bytes
  double warm_miss_share = 0;                     ///< DRAM bytes of repeats 2 ... n over what they read
};
/// Reads a buffer of each size (multiples of 4 KiB) `repeats` times from a cold L2, as simulate_reread
/// describes. Throws CountersUnavailable and CudaError.
std::vector<SweepMeasurement> measure_reread(const std::vector<std::int64_t>& buffer_bytes, int repeats);

}  // namespace flashsim::gpu

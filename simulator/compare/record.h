// Measurements as they are recorded: what a kernel did according to the counters, and where that was
// measured.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu_reference/problem.h"

namespace flashsim {

/// A file of records that cannot be read; the message names the file's place and what was expected there.
class RecordError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A kernel on a problem.
struct KernelCase {
  std::string kernel, variant;
  bool backward = false;
  Problem problem;
  friend bool operator==(const KernelCase& a, const KernelCase& b) {
    return a.kernel == b.kernel && a.variant == b.variant && a.backward == b.backward &&
           a.problem == b.problem;
  }
};
/// E.g. "fa2 backward, batch 1, heads 16/16, seqlen 1024 x 1024, d 64, fp16, causal".
std::string describe(const KernelCase& c);

/// Counters of one launch, in bytes (and seconds); NaN where the device has no such counter.
struct Observed {
  double requested_read = 0, requested_written = 0;
  double l2_read = 0, l2_written = 0, l2_reduced = 0;  ///< after L2 merged what neighbouring SMs asked for
  double fabric = 0;
  double dram_read = 0, dram_written = 0;
  double left_dirty = 0;  ///< what a flush wrote afterwards
  double shared_wavefronts = 0, tensor_instructions = 0, instructions = 0;
  double seconds = 0;
  double dram() const { return dram_read + dram_written; }
};

/// The kernel cannot have moved that much: it wrote, or left to be written, more to DRAM than it asked for
/// (and 1 % or 4 MB beyond). Something else used the GPU's memory meanwhile, such as another program.
bool disturbed(const Observed& o);

struct Record {
  KernelCase what;
  Tiling tiling;      ///< the kernel's: what the schedule is given
  Observed observed;  ///< of several launches, the one with the median of DRAM bytes
  /// Launches from a cold L2 that were measured, and their DRAM bytes (read and written). Records of one
  /// launch, as all once were, have no range.
  int launches = 1;
  double dram_least = std::numeric_limits<double>::quiet_NaN(),
         dram_most = std::numeric_limits<double>::quiet_NaN();
  /// DRAM bytes differ between launches by more than 1 %.
  bool varies() const { return dram_most > 1.01 * dram_least; }
};

/// The record of a case from at least one launch. Launches that something else disturbed count only where
/// all were. Where their number is even, the lesser one in the middle is the median.
Record record_of(const KernelCase& what, const Tiling& tiling, std::vector<Observed> launches);

/// Records of one run of `flashsim measure`.
struct Records {
  std::string device, driver, cuda, date, commit, command;  ///< date: YYYY-MM-DD
  /// The tensors of each launch lay at different places in memory (Layout in gpu_kernels/measure/workload.h);
  /// else side by side. Records that do not say were made with an allocation for each tensor.
  bool tensors_apart = false;
  std::vector<Record> records;
  /// The record of that case; null where there is none.
  const Record* find(const KernelCase& c) const;
};

inline constexpr int records_schema_version = 2;

/// As JSON, one record a line.
std::string to_json(const Records& records);
/// The inverse. Throws RecordError.
Records records_from_json(const std::string& text);

}  // namespace flashsim

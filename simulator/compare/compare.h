// Simulated against measured bytes: per kernel, tensor and level, and the bars that a whole suite must meet.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "simulator/compare/record.h"
#include "simulator/executors/l2/l2.h"

namespace flashsim {

enum class Level : std::uint8_t { requested, dram };
enum class ByteDirection : std::uint8_t { read, written };
const char* name_of(Level level);
const char* name_of(ByteDirection direction);

/// One number of the table. Counters do not tell tensors apart, so only the rows of "all" have a measurement.
struct CompareRow {
  std::string kernel;  ///< of the pass, e.g. "dQ = dS K"; "all" for their sum
  std::string tensor;  ///< "all" for their sum
  Level level{};
  ByteDirection direction{};
  double simulated = 0;
  double measured = std::numeric_limits<double>::quiet_NaN();
  /// simulated / measured - 1; NaN without a measurement.
  double difference() const { return simulated / measured - 1; }
};

/// A case simulated, beside its measurement.
struct ByteComparison {
  Record record;
  L2Range simulated;
  double flops = 0;  ///< of matrix products, and the compulsory bytes: each input once, each output once
  double compulsory = 0;
  std::vector<CompareRow> rows;

  const L2Traffic total() const { return simulated.median.total(); }
  /// DRAM bytes read and written while the kernel ran, over the measured ones, less 1.
  double dram_error() const;
  /// What is wrong with the requested bytes: beyond max(0.2 %, 64 KiB) for reads and max(0.5 %, 64 KiB) for
  /// writes. Empty where they agree.
  std::string requested_fault() const;
};

/// Simulates the record's case with its kernel's tiling, with `seeds` random seeds, and up to `most_seeds`
/// where those leave the median of DRAM bytes unknown (settled()). Throws std::invalid_argument where no
/// schedule is that kernel's.
ByteComparison compare(const Record& record, const L2Options& options = {}, int seeds = 1,
                       int most_seeds = 0);
/// The schedule that `c`'s kernel implements; null where there is none (third parties).
Schedule schedule_of(const KernelCase& c);

/// Errors of many cases' DRAM bytes in one range of lengths, and what they may be.
struct DramBar {
  int from = 0, to = 0;  ///< longest sequence of the cases
  double median_bar = 0, percentile_95_bar = 0, worst_bar = 0;
  int cases = 0;
  double median = 0, percentile_95 = 0, worst = 0;  ///< larger over smaller, less 1
  std::string worst_case;
  bool met() const;
};
struct Summary {
  int cases = 0;
  std::vector<std::string> requested_faults;
  std::vector<std::string> disturbed;  ///< cases whose DRAM bytes were not the kernel's alone: in no bar
  DramBar up_to_32k, from_64k;
  bool met() const { return requested_faults.empty() && up_to_32k.met() && from_64k.met(); }
};
/// Cases of less than 64 MB compulsory traffic that are off by at most 2 MB count as exact.
Summary summarise(const std::vector<ByteComparison>& comparisons);

}  // namespace flashsim

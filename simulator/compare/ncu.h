// Someone else's measurement: the counters in a report of NVIDIA Nsight Compute, exported as CSV.
#pragma once

#include <string>
#include <vector>

#include "simulator/compare/record.h"

namespace flashsim {

/// One profiled launch.
struct NcuKernel {
  std::string name;
  Observed
      observed;  ///< NaN where the report lacks a counter; left_dirty always (ncu does not flush afterwards)
};

/// Reads what `ncu --csv --page raw` (a launch a line, units in the line below the heading) or `ncu --csv
/// --page details` (a metric a line, with its unit) prints, with whatever ncu prints before it. Metrics are
/// those of ncu_metrics(); others are passed over. Units: byte and its decimal multiples, sector (32 bytes),
/// times. Throws RecordError with the line, and with the metrics to collect where none of them is there.
std::vector<NcuKernel> ncu_kernels_from_csv(const std::string& text);
/// The sum over launches, e.g. of the kernels of one pass.
Observed sum_of(const std::vector<NcuKernel>& kernels);
/// What to give `ncu --metrics`.
std::string ncu_metrics();

}  // namespace flashsim

// One run of a schedule on one case: numbers, bytes and SRAM taken from the same operations, so that no
// schedule can behave one way while it is counted and another while it computes.
#pragma once

#include <string>
#include <vector>

#include "lessons/grader/guard.h"
#include "simulator/executors/exactness.h"
#include "simulator/executors/traffic.h"

namespace flashsim::lessons {

/// What Q, K and V hold.
enum class Values : std::uint8_t {
  normal,
  large_logits,    ///< scores beyond what exp can hold
  growing_maxima,  ///< every tile of keys brings a larger maximum
  constant_rows    ///< all scores of a row are equal
};

struct Case {
  std::string name;
  Problem p;
  Tiling t;
  Values values = Values::normal;
  std::uint64_t seed = 0;
  Roundings roundings;    ///< where a right solution may round; see tolerance.h
  bool backward = false;  ///< dQ, dK, dV instead of O and LSE; O and LSE are inputs
  bool lse = true;        ///< LSE is asked for
};

/// Inputs and truth of a case.
Truth truth_of(const Case& c);

/// What happened.
struct Run {
  std::string fault;            ///< empty, or why the run broke off
  bool process_failed = false;  ///< the process broke it: a crash, time, nonsense on the channel
  std::vector<Comparison> results;
  std::vector<std::vector<double>> outputs;  ///< as results
  KernelTraffic traffic;
  std::vector<KernelTraffic> kernels;
  std::int64_t peak_sram = 0;  ///< Placement::paper
  /// Of the kernel with the most work on tensor cores: that work over the busiest thread block's. As many
  /// thread blocks as this could share it evenly.
  double sharing = 0;
  std::int64_t statistics_compared = 0;
  std::string statistics_fault;

  bool right() const;  ///< ran to the end, and every result is within its tolerance
};

/// Runs `program` on the case. `allowed` as for Guard. Never throws for what the schedule does.
Run run_case(const Program& program, const Case& c, const Truth& truth, const Allowance& allowed);
/// Generous bounds from a run of the reference.
Allowance allowance_for(const Run& reference);
/// For a schedule of ours, which needs none.
Run run_reference(Schedule schedule, const Case& c, const Truth& truth);

}  // namespace flashsim::lessons

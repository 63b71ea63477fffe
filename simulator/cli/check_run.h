// The runs that flashsim check makes: one is an algorithm's pass on one problem with one tiling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/cli/candidate.h"
#include "simulator/executors/exactness.h"

namespace flashsim::cli {

struct CheckRun {
  Candidate candidate;
  bool backward = false;
  Problem problem;
  Tiling tiling;
  std::uint64_t seed = 0;
  double stretch = 1;  ///< factor of random Q: large logits
  std::vector<Comparison> results;

  /// Runs it and fills results; the outputs go where the pointers say, if anywhere.
  void execute(const Truth& truth, ForwardResult* forward, BackwardResult* gradients);
  std::string name() const { return candidate.name(); }
  bool ok() const;
  /// The comparison that is closest to its tolerance, or farthest beyond it.
  const Comparison& worst() const;
  const char* pass() const { return backward ? "backward" : "forward"; }
};

/// A ragged problem with small blocks, any mask, heads, dropout: case `index` of `seed`. What `algorithm`
/// does not compute is left out.
CheckRun random_case(const Algorithm& algorithm, bool backward, Dtype dtype, std::uint64_t seed,
                     std::uint64_t index);

/// "none", "causal", "window 32,8", "causal window 32,-1".
std::string mask_of(const Problem& p);

/// A position in a contiguous result: "(batch 0, head 1, row 17, col 3)".
std::string place_of(const Comparison& c, const Problem& p);

/// Files that the command line named.
struct GivenFiles {
  std::string schedule;  ///< the user's, or empty
  std::string tensors;   ///< "--q q.npy --k k.npy --v v.npy", or empty
};
/// The command that repeats the run alone.
std::string command_of(const CheckRun& run, const GivenFiles& given);

}  // namespace flashsim::cli

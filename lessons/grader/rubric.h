// What is checked in an exercise that is a schedule, for how many points, and which mistakes have a name.
#pragma once

#include <string>
#include <vector>

#include "lessons/grader/graded_run.h"

namespace flashsim::lessons {

/// What a check asks of a run. All but `result` ask it of a run whose results are right too: a schedule that
/// moves no bytes because it computes nothing earns nothing.
enum class Measure : std::uint8_t {
  result,       ///< every result within its tolerance
  statistics,   ///< m and l after every tile
  bytes,        ///< requested bytes, at most the reference's
  sram,         ///< most bytes on chip at once, at most a quarter more than the reference's
  no_scores,    ///< no (seqlen_q, seqlen_k) tensor in HBM
  other_flops,  ///< FLOPs outside matrix products, at most a twentieth more than the reference's
  parallel      ///< at least as many thread blocks share the largest kernel's work as in the reference
};

struct Check {
  std::string name;
  double points = 0;
  std::size_t run = 0;  ///< which case
  Measure measure = Measure::result;
  /// Where the skeleton's numbers are right already: without any of this check's points there are none for
  /// others.
  bool gate = false;
};

/// A known wrong solution. Who gets the same wrong numbers has made the same mistake; one whose numbers are
/// right is recognised by what goes through memory.
struct Mistake {
  std::string name;  ///< what was done, e.g. "O is not rescaled"
  std::string hint;  ///< what to think about
  Schedule schedule = nullptr;
  /// Of mistakes with right numbers: whether this traffic, against the reference's, shows it.
  bool (*seen_in)(const KernelTraffic& run, const KernelTraffic& reference) = nullptr;
};

struct Rubric {
  Schedule reference = nullptr;
  std::vector<Case> cases;
  std::vector<Check> checks;
  std::vector<Mistake> mistakes;

  double points() const;
};

/// The rubric of a schedule exercise. The seed chooses lengths and inputs: 0 is what students check with,
/// staff grade with a secret one.
Rubric rubric_of(int exercise, std::uint64_t seed);

// The mistakes with a name, by what they are about.
std::vector<Mistake> standard_mistakes();
/// In the online softmax step, and in what stands around it.
std::vector<Mistake> step_mistakes();
std::vector<Mistake> frame_mistakes();
std::vector<Mistake> causal_mistakes();
std::vector<Mistake> backward_mistakes();
std::vector<Mistake> merge_mistakes();
/// O or S and P through HBM, tiles that are hidden: right numbers, too many bytes.
std::vector<Mistake> traffic_mistakes();

}  // namespace flashsim::lessons

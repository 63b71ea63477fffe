// What of the requested bytes reaches DRAM: a schedule's own operations, replayed through a model of L2.
//
// Every thread block's loads, stores and reductions are recorded by running its body, and replayed in time:
// a heap of (time, thread block) decides who does the next step. Thread blocks start in the order of the
// launch, one for every free place on an SM; SMs belong to the side of one of two L2 partitions (cache.h).
// No cycle is simulated: a step takes as long as its matrix products (of kernels without any: its bytes),
// times small random differences, because thread blocks that drift apart stop sharing what L2 holds. Nothing
// is fitted to a kernel; the constants in Drift describe the card.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "simulator/executors/l2/card.h"
#include "simulator/machine/gpu.h"
#include "simulator/schedules/schedules.h"

namespace flashsim {

/// How thread blocks drift apart: found on an H200, from 32 launches of forward kernels that are not ours and
/// from fa2 (its backward pass, and its forward pass at n = 65,536) and fa3, and used for every card. Where
/// an SM keeps its thread blocks (fa3), its speed decides; where it takes new ones, the steps' noise does as
/// much, which tells the two apart. Times are in units of a step.
struct Drift {
  double sm_speed_spread = 0.0025;  ///< standard deviation of the SMs' speeds
  double step_noise = 0.3;          ///< a step takes 1 +- this, uniformly, where an SM holds several blocks
  double step_noise_alone = 0.12;   ///< the same where it holds one: nobody competes for its tensor cores
  double dram_penalty = 0.01;       ///< added where a line came from DRAM: who leads waits for it
  double first_step = 1;            ///< added to a thread block's first step: nothing overlaps its loads
  double start_spread = 0.5;        ///< the first thread blocks start within this
  double alone = 0.6;               ///< factor where an SM holds half the thread blocks it could
  /// Of two thread blocks on an SM the older one's steps take so much less, and the younger one's so much
  /// more: the SM prefers the warps that it has had longest. With products alone it is a quarter
  /// (docs/measurements/h200_older_first.txt); attention leaves the tensor cores free now and then.
  double older_first = 0.01;
};

struct L2Options {
  const Gpu* gpu = nullptr;    ///< null: h200
  const Card* card = nullptr;  ///< what was measured of the card; null: only what is known of all `gpu`
  std::int64_t l2_bytes = -1;  ///< -1: the card's, or the GPU's
  /// Thread blocks with matrix products that an SM holds at once; 0: as many as the tiles in shared memory
  /// and 255 registers a thread allow.
  int blocks_per_sm = 0;
  std::int64_t sample_bytes = 0;  ///< that one sampled line stands for; 0: 512 ... 16,384 by the problem
  std::uint64_t seed = 1;
  std::int64_t spilled_bytes_per_block =
      0;                                ///< local memory rewritten in every step, as the compiler reports it
  std::int64_t dirty_bytes_before = 0;  ///< of other data, left in L2 by what ran before
  /// Every tensor lies somewhere else in memory, as if each had been allocated at another time. Else they lie
  /// side by side, as `flashsim measure` puts them: those with rows of keys, then those with rows of queries.
  bool tensors_apart = false;
  Drift drift;
};

/// Bytes of one tensor, in one kernel or in all.
struct L2Traffic {
  double requested_read = 0, requested_written = 0;  ///< exact; a reduction counts as written
  double dram_read = 0;
  double dram_written = 0;  ///< dirty lines that had, or were about, to make room
  double left_dirty = 0;    ///< still in L2 at the end: what a flush would write; 0 in a single kernel
  double dram() const { return dram_read + dram_written; }
  L2Traffic& operator+=(const L2Traffic& o);
};

struct L2Kernel {
  std::string name;
  std::int64_t thread_blocks = 0;
  int blocks_per_sm = 0;
  std::array<L2Traffic, tensor_count> tensors;
  L2Traffic other;  ///< spilled registers, and what was dirty before
  L2Traffic total() const;
};

struct L2Result {
  std::vector<L2Kernel> kernels;
  std::array<L2Traffic, tensor_count> tensors;
  L2Traffic other;
  double fabric_bytes = 0;  ///< crossed between the partitions
  L2Traffic total() const;
};

/// Runs a schedule from a cold L2. Throws ScheduleError where it does what no machine can do, and
/// std::length_error where sampling is too fine for the problem.
L2Result simulate_l2(Schedule schedule, const Problem& p, const Tiling& t, const L2Options& options = {});

/// The same of several random seeds. Where thread blocks drift apart, sub-percent differences in speed decide
/// what is shared: then the range is the answer.
struct L2Range {
  L2Result median;             ///< the run with the median of DRAM bytes
  double least = 0, most = 0;  ///< DRAM bytes over all runs
};
/// `seeds` >= 1 runs, with options.seed, options.seed + 1, ...; then more, up to `most_seeds`, until `enough`
/// says of their DRAM bytes that it is (every other one, so that there is a middle one).
L2Range simulate_l2_range(Schedule schedule, const Problem& p, const Tiling& t, const L2Options& options,
                          int seeds, int most_seeds = 0,
                          const std::function<bool(const std::vector<double>&)>& enough = {});

}  // namespace flashsim

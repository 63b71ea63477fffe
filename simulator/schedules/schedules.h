// Every algorithm, written once. Executors give the same text numbers, bytes, SRAM, frames and time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simulator/machine/device.h"

namespace flashsim {

using Schedule = void (*)(Device&, const Problem&, const Tiling&);

/// Which operators an eager framework runs around the matrix products of standard attention. Both lists add
/// up to the 40.3 GB of FlashAttention's Figure 2: the default is what PyTorch runs for softmax(q k^T *
/// scale) v; the other folds the scale into the product, adds a mask and drops elements (set
/// Problem::dropout_p).
struct EagerPasses {
  bool separate_scale = true;
  bool additive_mask = false;  ///< also where the problem has no mask; with a mask there is always a pass
  bool fused_softmax_backward = false;
};

void standard_forward(Device& gpu, const Problem& p, const Tiling& t);
void standard_backward(Device& gpu, const Problem& p, const Tiling& t);
void standard_eager_forward(Device& gpu, const Problem& p, const Tiling& t, const EagerPasses& passes);
void standard_eager_backward(Device& gpu, const Problem& p, const Tiling& t, const EagerPasses& passes);
/// Softmax alone, from S to P, both in memory; no mask. Not in algorithms(): there is no O.
void softmax_safe(Device& gpu, const Problem& p, const Tiling& t);
void softmax_online(Device& gpu, const Problem& p, const Tiling& t);
void fa1_forward(Device& gpu, const Problem& p, const Tiling& t);
void fa1_backward(Device& gpu, const Problem& p, const Tiling& t);
void fa2_forward(Device& gpu, const Problem& p, const Tiling& t);
void fa2_backward(Device& gpu, const Problem& p, const Tiling& t);
void fa3_forward(Device& gpu, const Problem& p, const Tiling& t);
void fa3_quantise(Device& gpu, const Problem& p, const Tiling& t);
void decoding_forward(Device& gpu, const Problem& p, const Tiling& t);
void chunked_forward(Device& gpu, const Problem& p, const Tiling& t);

/// An entry of the list that commands, tests and benchmarks iterate.
struct Algorithm {
  std::string_view name;   ///< what --algorithm takes
  std::string_view title;  ///< with its paper, e.g. "FlashAttention-2 (Dao 2023)"
  std::string_view idea;   ///< one line
  Schedule forward;
  Schedule backward;  ///< null where the algorithm has none of its own
  /// Empty where the schedule computes this problem, else why not.
  std::string (*fault)(const Problem& p);
  /// The schedule's side of a Tiling whose blocks, warps and so on the caller did not choose.
  Tiling (*tiling)(const Problem& p);
};

/// standard, standard-eager, chunked, fa1, fa2, fa3, decoding.
const std::vector<Algorithm>& algorithms();
/// The algorithm of that name; null where there is none.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace flashsim

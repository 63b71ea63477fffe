// What a reader may change about a lesson.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/machine/gpu.h"

namespace flashsim::course {

/// Eight scores of an introduction to FlashAttention.
std::vector<double> example_scores();

/// Every lesson has its own defaults and uses some of these.
struct Settings {
  const Gpu* gpu = find_gpu("a100-80");
  int n = 4096;    ///< queries and keys
  int d = 128;     ///< head dimension
  int heads = 32;  ///< query heads, over the whole batch
  int block = 64;  ///< rows of a tile
  int chunk = 2;   ///< scores that online softmax takes at a time
  std::int64_t bytes = 32'000'000;
  std::vector<double> scores = example_scores();
  std::uint64_t seed = 0;
};

/// A setting that a lesson uses; whole numbers lie in [min, max].
struct Use {
  std::string
      name;  ///< as the option, without dashes: "n", "d", "heads", "block", "chunk", "bytes", "gpu", ...
  std::int64_t min = 0, max = 0;
};

/// The value of a setting as its option takes it. Throws std::out_of_range for another name.
std::string shown(const Settings& s, const std::string& name);

}  // namespace flashsim::course

// Which set of L2 a line lies in, by its place in memory.
//
// As on an H200 (found load by load, docs/measurements/h200_l2_sets.txt): two lines that share 256 bytes, a
// pair, have one home on each side of L2; both lie in the set of one number there, and so do their copies on
// the other sides. Pairs that follow each other in memory go round through the sets of a side in windows of
// four fifths of them (47 x 64 KiB of memory): a window has one pair in each of its sets, none in the others,
// and the next one goes on where it ends. A window is up to 32 rows of sets. Its pairs take the rows in the
// order of an exclusive or, each window with another number, and the sets of a row from another one on. So
// what lies side by side is spread evenly: 26 MiB have at most 16 lines in any set, wherever they begin.
#pragma once

#include <cstdint>

namespace flashsim::l2 {

class Placement {
 public:
  /// `sets` of one side, at least 1. `seed` is where in memory the launch lies: the windows' numbers.
  Placement(std::uint32_t sets, std::uint64_t seed);

  /// The set of the pair that is the `pair`-th in memory.
  std::uint32_t set_of(std::uint64_t pair) const;

 private:
  /// 320 rows of an H200's sets are 5 x 64, and a window is 4 x 64 of them.
  static constexpr std::uint64_t parts = 5, most_rows = 32;

  std::uint64_t sets_, seed_;
  std::uint64_t window_;  // pairs
  std::uint64_t rows_;    // of a window, a power of two that divides it
};

}  // namespace flashsim::l2

#include "gpu_kernels/decoding/splits.h"

#include <doctest/doctest.h>

#include <rapidcheck.h>
#include <algorithm>
#include <cstdint>
#include <vector>

using namespace flashsim::gpu;

namespace {

/// The model of choose_num_splits, by handing out thread blocks to slots one after another.
std::int64_t simulated_time(int units, int tiles, int slots, int splits, int overhead) {
  std::vector<std::int64_t> busy(static_cast<std::size_t>(slots), 0);
  const int each = (tiles + splits - 1) / splits + (splits > 1 ? overhead : 0);
  for (int block = 0; block < units * splits; ++block) busy[static_cast<std::size_t>(block % slots)] += each;
  return *std::max_element(busy.begin(), busy.end());
}

}  // namespace

TEST_CASE("splits cover every tile once, in whole tiles, and none is empty") {
  rc::check([] {
    const int tiles = *rc::gen::inRange(1, 5000), splits = *rc::gen::inRange(1, 1200);
    const int each = tiles_per_split(tiles, splits), used = splits_in_use(tiles, splits);
    RC_ASSERT(used >= 1 && used <= splits);
    RC_ASSERT(each * used >= tiles);
    RC_ASSERT(each * (used - 1) < tiles);
  });
}

TEST_CASE("the chosen number of splits is the smallest of those that finish first") {
  rc::check([] {
    const int units = *rc::gen::inRange(1, 40), tiles = *rc::gen::inRange(1, 200);
    const int slots = *rc::gen::inRange(1, 60), overhead = *rc::gen::inRange(0, 6);
    const int chosen = choose_num_splits(units, tiles, slots, overhead);
    RC_ASSERT(chosen >= 1 && chosen <= tiles);
    const std::int64_t time = simulated_time(units, tiles, slots, chosen, overhead);
    for (int s = 1; s <= tiles; ++s) {
      const std::int64_t other = simulated_time(units, tiles, slots, s, overhead);
      if (s < chosen)
        RC_ASSERT(other > time);
      else
        RC_ASSERT(other >= time);
    }
  });
}

TEST_CASE("one long sequence is spread over the GPU; many sequences are not split") {
  // 2 K/V heads on an H200 (132 SMs, two thread blocks each), 64 keys a tile, 1M keys: one wave of equal
  // parts.
  const int splits = choose_num_splits(2, (1 << 20) / 64, 264);
  CHECK(splits == 132);
  CHECK(choose_num_splits(264, 64, 264) == 1);
  CHECK(choose_num_splits(2, 1, 264) == 1);
}

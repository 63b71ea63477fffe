// The blocks that launches are timed in, with launches whose seconds are given.
#include "gpu_kernels/common/rested_blocks.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace flashsim::gpu;

namespace {

/// What happened: launches since each rest, and the seconds that were returned.
struct Card {
  double seconds;
  std::vector<int> launches;
  std::vector<double> rests;

  std::vector<double> time(int warmup, int repeats) {
    return in_rested_blocks(
        warmup, repeats,
        [this] {
          REQUIRE_FALSE(launches.empty());  // a rest comes first
          ++launches.back();
          return seconds;
        },
        [this](double rest) { rests.push_back(rest), launches.push_back(0); });
  }
};

}  // namespace

TEST_CASE("a block has launches for 10 ms that do not count, and for 10 ms that do") {
  Card card{0.003, {}, {}};
  const std::vector<double> counted = card.time(1, 12);
  CHECK(counted == std::vector<double>(12, 0.003));
  CHECK(card.launches ==
        std::vector<int>{4 + 5, 4 + 5, 4 + 2});  // at least five count; the last block is cut
  CHECK(card.rests == std::vector<double>(3, 0.05));
}

TEST_CASE("short launches fill a block by time, long ones by number") {
  Card quick{1.0 / 1024, {}, {}};  // exact in binary: ten of them are below 10 ms, eleven above
  CHECK(quick.time(3, 20).size() == 20);
  CHECK(quick.launches == std::vector<int>{11 + 11, 11 + 9});
  Card slow{0.5, {}, {}};
  CHECK(slow.time(3, 5).size() == 5);
  CHECK(slow.launches == std::vector<int>{3 + 5});
}

TEST_CASE("the first launches of a card that speeds up do not count") {
  int launch = 0;
  const std::vector<double> counted = in_rested_blocks(
      0, 8, [&] { return ++launch <= 4 ? 0.004 : 0.002; }, [&](double) { launch = 0; });
  // 4 + 4 + 4 ms pass uncounted; the fourth is still slow, the others are not
  CHECK(counted.size() == 8);
  CHECK(std::count(counted.begin(), counted.end(), 0.004) == 2);
}

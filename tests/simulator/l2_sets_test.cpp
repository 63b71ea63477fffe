// What the cache model assumes of L2's sets, against the sets that were found load by load on an H200
// (docs/measurements/h200_l2_sets.txt, which says how).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "simulator/executors/l2/cache.h"
#include "simulator/machine/gpu.h"

using namespace flashsim;

namespace {

constexpr std::int64_t line_bytes = 128, searched = std::int64_t{512} << 20;

struct Set {
  int ways = 0;
  int hit[2] = {}, gone[2] = {};    // cycles, from an SM of either side
  std::vector<std::int64_t> lines;  // ascending
};

std::vector<Set> measured_sets() {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/h200_l2_sets.txt");
  std::vector<Set> all;
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text[0] == '#') continue;
    std::istringstream fields(text);
    Set s;
    std::int64_t line = 0;
    fields >> line >> s.ways >> s.hit[0] >> s.gone[0] >> s.hit[1] >> s.gone[1];
    REQUIRE(!fields.fail());
    while (fields >> line) s.lines.push_back(line);
    all.push_back(s);
  }
  return all;
}

/// The most lines of a set that lie within `bytes` side by side, wherever those begin.
std::int64_t most_within(const Set& s, std::int64_t bytes) {
  std::int64_t most = 0;
  for (auto first = s.lines.begin(); first != s.lines.end(); ++first)
    most = std::max<std::int64_t>(
        most, std::lower_bound(first, s.lines.end(), *first + bytes / line_bytes) - first);
  return most;
}

}  // namespace

TEST_CASE("sets have as many ways as the model's, and there are no more of them than it has room for") {
  const std::vector<Set> sets = measured_sets();
  REQUIRE(sets.size() == 40);
  const Gpu& h200 = *find_gpu("h200");
  for (const Set& s : sets) {
    CHECK(s.ways == l2::Cache::ways);
    // What all sets of a side hold, with as many lines each as this one has in the memory searched.
    const double share = static_cast<double>(searched / line_bytes) / static_cast<double>(s.lines.size()) *
                         l2::Cache::ways * line_bytes * h200.l2_partitions /
                         static_cast<double>(h200.l2_bytes);
    CHECK(share == doctest::Approx(47.0 / 48).epsilon(0.004));  // 278 to 280 lines: whole pairs
    CHECK(l2::Cache::default_usable < share);
    // Gone from its side, a line comes from DRAM: directly, or by way of its home on the other side.
    for (const int side : {0, 1}) CHECK(s.gone[side] > s.hit[side] + 150);
    CHECK(std::max(s.gone[0], s.gone[1]) > std::min(s.gone[0], s.gone[1]) + 80);
  }
}

TEST_CASE("lines that lie side by side are spread evenly: 26 MiB fit, wherever they begin, 30 do not") {
  int too_many = 0;
  for (const Set& s : measured_sets()) {
    CHECK(most_within(s, std::int64_t{26} << 20) <= l2::Cache::ways);
    too_many += most_within(s, std::int64_t{30} << 20) > l2::Cache::ways;
  }
  CHECK(too_many == 40);
}

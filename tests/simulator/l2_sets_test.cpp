// What the cache model assumes of L2's sets, against the sets that were found load by load on an H200
// (docs/measurements/h200_l2_sets.txt, which says how).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "simulator/compare/card_record.h"
#include "simulator/executors/l2/cache.h"

using namespace flashsim;

namespace {

constexpr std::int64_t line_bytes = 128, searched = std::int64_t{512} << 20;

struct Set {
  int ways = 0;
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
    int cycles[4];
    fields >> line >> s.ways >> cycles[0] >> cycles[1] >> cycles[2] >> cycles[3];
    REQUIRE(!fields.fail());
    while (fields >> line) s.lines.push_back(line);
    all.push_back(s);
  }
  return all;
}

std::int64_t lines_within(const Set& s, std::int64_t first, std::int64_t count) {
  const auto at = [&](std::int64_t line) { return std::lower_bound(s.lines.begin(), s.lines.end(), line); };
  return at(first + count) - at(first);
}

/// Of all sets and all pages of 2 MiB at which `mib` MiB side by side can begin: in how many the set has more
/// lines there than ways, and at how many pages none has.
struct Crowding {
  int crowded = 0, looked_at = 0, good_pages = 0, pages = 0;
};
Crowding crowding(const std::vector<Set>& sets, std::int64_t mib) {
  constexpr std::int64_t page = (2 << 20) / line_bytes;
  const std::int64_t count = (mib << 20) / line_bytes;
  Crowding c;
  for (std::int64_t first = 0; first + count <= searched / line_bytes; first += page) {
    const auto crowded = static_cast<int>(std::count_if(sets.begin(), sets.end(), [&](const Set& s) {
      return lines_within(s, first, count) > l2::Cache::ways;
    }));
    c.crowded += crowded;
    c.looked_at += static_cast<int>(sets.size());
    c.good_pages += crowded == 0;
    ++c.pages;
  }
  return c;
}

}  // namespace

TEST_CASE("the model's sets have as many ways as the card's, and hold no more than those do") {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/h200_l2_card.json");
  const Card card = card_from_json({std::istreambuf_iterator<char>(file), {}});
  for (const Set& s : measured_sets()) {
    CHECK(s.ways == l2::Cache::ways);
    // The share of L2 that sets with 16 lines hold, if all have as many lines as this one in the memory
    // searched.
    const double share = static_cast<double>(searched) / static_cast<double>(s.lines.size()) *
                         l2::Cache::ways * card.partitions / static_cast<double>(card.l2_bytes);
    CHECK(l2::Cache::default_usable <= share);
    CHECK(card.usable <= share);
  }
}

TEST_CASE("what docs/measured_bytes.md says of these sets") {
  const std::vector<Set> sets = measured_sets();
  REQUIRE(sets.size() == 40);
  for (const Set& s : sets) {
    CHECK(s.lines.size() >= 278);
    CHECK(s.lines.size() <= 280);
  }
  int neither = 0, windows = 0;
  for (const Set& s : sets)
    for (std::int64_t w = 1; w < 173;
         ++w, ++windows) {  // where the first begins was found with the sets in view
      const std::int64_t lines = lines_within(s, (w * 47 - 35) * 512, std::int64_t{47} * 512);
      neither += lines != 0 && lines != 2;
    }
  CHECK(windows == 6880);
  CHECK(neither == 46);
  CHECK(crowding(sets, 26).crowded == 0);
  const Crowding in_28 = crowding(sets, 28), in_30 = crowding(sets, 30);
  CHECK(std::lround(100.0 * in_28.crowded / in_28.looked_at) == 3);
  CHECK(in_28.good_pages == 163);
  CHECK(in_28.pages == 243);
  CHECK(std::lround(100.0 * in_30.crowded / in_30.looked_at) == 26);
}

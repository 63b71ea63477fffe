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
#include "simulator/executors/l2/placement.h"
#include "simulator/machine/gpu.h"

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

TEST_CASE("the model's sets have as many ways as the card's, and hold as much") {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/h200_l2_card.json");
  const Card card = card_from_json({std::istreambuf_iterator<char>(file), {}});
  const std::vector<Set> sets = measured_sets();
  double lines = 0;  // of a set in the memory searched
  for (const Set& s : sets) {
    CHECK(s.ways == l2::Cache::ways);
    // The share of L2 that sets with 16 lines hold, if all have as many lines as this one.
    const double share = static_cast<double>(searched) / static_cast<double>(s.lines.size()) *
                         l2::Cache::ways * card.partitions / static_cast<double>(card.l2_bytes);
    CHECK(card.usable <= share);
    lines += static_cast<double>(s.lines.size()) / static_cast<double>(sets.size());
  }
  // A set's lines are a whole number where the mean of all sets is a fraction: one line more or less.
  const double mean = static_cast<double>(searched) * l2::Cache::ways * card.partitions /
                      (l2::Cache::default_usable * static_cast<double>(card.l2_bytes));
  CHECK(std::fabs(mean - lines) < 1);
}

// The model's own sets, one for every set of the card: as even where the card's are, and no more even where
// they are not.
TEST_CASE("lines side by side in memory crowd the model's sets as they do the card's") {
  const std::vector<Set> measured = measured_sets();
  const auto l2_bytes = static_cast<double>(find_gpu("h200")->l2_bytes);
  const auto sets_a_side =
      static_cast<std::uint32_t>(std::lround(l2::Cache::default_usable * l2_bytes / 2 / line_bytes / 16));
  CHECK(sets_a_side == 47 * 320);
  std::vector<Set> all(sets_a_side);
  const l2::Placement placement(sets_a_side, 1);
  for (std::int64_t pair = 0; pair < searched / line_bytes / 2; ++pair)
    for (const int k : {0, 1})
      all[placement.set_of(static_cast<std::uint64_t>(pair))].lines.push_back(2 * pair + k);
  std::vector<Set> some;  // one in 47
  for (std::size_t s = 0; s < all.size(); s += 47) some.push_back(all[s]);
  CHECK(crowding(some, 26).crowded == 0);
  for (const std::int64_t mib : {28, 30, 32}) {
    CAPTURE(mib);
    const Crowding model = crowding(some, mib), card = crowding(measured, mib);
    // Each of the measured sets counts for a fortieth at every place.
    CHECK(std::fabs(static_cast<double>(model.crowded) / model.looked_at -
                    static_cast<double>(card.crowded) / card.looked_at) < 1.0 / 40);
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

// What goes from a set of L2 and what is cleaned: the cache model does what an H200 did, load by load
// (docs/measurements/h200_l2_policy.txt, which says how each row was found).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "simulator/executors/l2/cache.h"

using namespace flashsim;

namespace {

/// By row: from how many pushes on the line was gone in each of the card's sets; "-": never.
std::map<std::string, std::vector<std::string>> measured_rows() {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/h200_l2_policy.txt");
  REQUIRE(file.good());
  std::map<std::string, std::vector<std::string>> all;
  for (std::string text; std::getline(file, text);) {
    if (text[0] == '#' || text.rfind("set\t", 0) == 0) continue;
    std::istringstream fields(text);
    std::string set, what, last, gone;
    std::getline(fields, set, '\t');
    std::getline(fields, what, '\t');
    std::getline(fields, last, '\t');
    std::getline(fields, gone, '\t');
    all[what].push_back(gone);
  }
  return all;
}

/// Lines of one set on each side; near: at home on side 0.
class OneSet {
 public:
  OneSet() : cache_(2 * 1024 * l2::Cache::ways * 48 / 47 + 1024, 2, 1024, 1) {
    REQUIRE(cache_.sets_per_partition() == 1);
    const std::uint32_t first = cache_.add_lines(2 * most, 0);
    for (std::uint32_t line = first; line < first + 2 * most; ++line) {
      const std::int64_t crossed = cache_.fabric_lines();
      cache_.reduce(line, 0, 0);
      (cache_.fabric_lines() == crossed ? near_ : far_).push_back(line);
    }
    for (const bool near : {true, false})  // others, clean
      for (int i = 70; i < 110; ++i) read(near, i, near ? 0 : 1);
  }
  void read(bool near, int i, int side) { cache_.read(line(near, i), side, 0); }
  void write(bool near, int i, int side) { cache_.write(line(near, i), side, 0); }
  void again(bool near, int i, int side, int times) { cache_.again(line(near, i), side, true, times); }
  void read(bool near, int from, int n, int side) {
    for (int i = from; i < from + n; ++i) read(near, i, side);
  }
  void write(bool near, int from, int n, int side) {
    for (int i = from; i < from + n; ++i) write(near, i, side);
  }
  bool holds(bool near, int i, int side) { return cache_.read(line(near, i), side, 0) == l2::Found::near; }

 private:
  static constexpr int most = 120;
  std::uint32_t line(bool near, int i) const { return (near ? near_ : far_)[static_cast<std::size_t>(i)]; }
  l2::Cache cache_;
  std::vector<std::uint32_t> near_, far_;
};

constexpr bool near = true, far = false;

}  // namespace

TEST_CASE("the model's sets let go and clean as an H200's do, load by load") {
  const auto measured = measured_rows();
  std::set<std::string> rows;
  /// `prepare` a set, then let k lines push; is line `i` still there, from `side`?
  const auto check = [&](const std::string& what, const std::function<void(OneSet&)>& prepare,
                         const std::function<void(OneSet&, int)>& push, bool is_near, int i, int side = 0) {
    CAPTURE(what);
    REQUIRE(measured.count(what) == 1);
    std::string gone = "-";
    for (int k = 0; k <= 26 && gone == "-"; ++k) {
      OneSet set;
      prepare(set);
      push(set, k);
      if (!set.holds(is_near, i, side)) gone = std::to_string(k);
    }
    for (const std::string& found : measured.at(what)) CHECK(gone == found);
    rows.insert(what);
  };
  const auto near_reads = [](OneSet& s, int k) { s.read(near, 0, k, 0); };
  const auto home_reads = [](OneSet& s, int k) { s.read(far, 0, k, 1); };
  const auto near_stores = [](OneSet& s, int k) { s.write(near, 0, k, 0); };
  const auto far_stores = [](OneSet& s, int k) { s.write(far, 0, k, 0); };
  constexpr int A = 50, B = 50;

  check(
      "T6c A far read, home pushed by 17, A's copy pushed by k near",
      [&](OneSet& s) { s.read(far, A, 0), home_reads(s, 17); }, near_reads, far, A);
  check(
      "T6d B near; A far read; home pushed by 17 of SM 2; k near: B?",
      [&](OneSet& s) { s.read(near, B, 0), s.read(far, A, 0), home_reads(s, 17); }, near_reads, near, B);
  check(
      "T7 B near, full store, pushed by k near reads", [](OneSet& s) { s.write(near, B, 0); }, near_reads,
      near, B);
  check(
      "T7a A far, full store, pushed near by k near reads", [](OneSet& s) { s.write(far, A, 0); }, near_reads,
      far, A);
  check(
      "T7b A far, full store by SM 0, home pushed by k reads of SM 2, from 2",
      [](OneSet& s) { s.write(far, A, 0); }, home_reads, far, A, 1);
  check(
      "T8 B near read; then 4 near full stores; k near reads: B?",
      [](OneSet& s) { s.read(near, B, 0), s.write(near, 20, 4, 0); }, near_reads, near, B);
  check(
      "T8a 4 near full stores, then B near read; k near reads: B?",
      [](OneSet& s) { s.write(near, 20, 4, 0), s.read(near, B, 0); }, near_reads, near, B);
  check(
      "T9 B near read, pushed by k near full stores", [](OneSet& s) { s.read(near, B, 0); }, near_stores,
      near, B);
  check(
      "T9a B near read, pushed by k far full stores of SM 0 (copies)", [](OneSet& s) { s.read(near, B, 0); },
      far_stores, near, B);
  check(
      "T12 B near full store; k far reads of SM 0 (copies): B", [](OneSet& s) { s.write(near, B, 0); },
      [](OneSet& s, int k) { s.read(far, 0, k, 0); }, near, B);
  check(
      "T12c B near full store; k far full stores of SM 0 (copies): B", [](OneSet& s) { s.write(near, B, 0); },
      far_stores, near, B);
  const auto numbered = [](const std::string& what, int d) { return what + ": D" + std::to_string(d + 1); };
  for (const int stores : {3, 6})
    for (int d = 0; d < stores; ++d)
      check(
          numbered("T10 " + std::to_string(stores) + " near full stores; k near reads", d),
          [&](OneSet& s) { s.write(near, 30, stores, 0); }, near_reads, near, 30 + d);
  for (int d = 0; d < 3; ++d)
    check(
        numbered("T11 3 near full stores, 6 near reads; k near full stores", d),
        [](OneSet& s) { s.write(near, 30, 3, 0), s.read(near, 40, 6, 0); }, near_stores, near, 30 + d);
  const auto four_and_twelve = [](OneSet& s) { s.write(near, 30, 4, 0), s.read(near, 40, 12, 0); };
  for (int d = 0; d < 4; ++d) {
    for (const int hits : {0, 1, 2, 3, 5, 9}) {
      const std::string what = numbered(
          "T14 4 stores, 12 reads, " + std::to_string(hits) + " stores to the last line; k reads", d);
      check(
          what,
          [&](OneSet& s) {
            four_and_twelve(s);
            for (int h = 0; h < hits; ++h) s.write(near, 51, 0);
          },
          near_reads, near, 30 + d);
      if (hits == 0) continue;
      CAPTURE("the same, the later stores as accesses that follow the first");
      check(
          what, [&](OneSet& s) { four_and_twelve(s), s.write(near, 51, 0), s.again(near, 51, 0, hits - 1); },
          near_reads, near, 30 + d);
    }
    for (const int more : {1, 2, 3}) {
      check(
          numbered("T15 4 stores, 12 reads, " + std::to_string(more) + " stores to new lines; k reads", d),
          [&](OneSet& s) { four_and_twelve(s), s.write(near, 60, more, 0); }, near_reads, near, 30 + d);
      check(
          numbered("T16 4 stores, 12 reads, " + std::to_string(more) + " far stores to new lines; k reads",
                   d),
          [&](OneSet& s) { four_and_twelve(s), s.write(far, 60, more, 0); }, near_reads, near, 30 + d);
    }
    check(
        numbered("T17 4 stores, 12 reads, 4 hits of the last; k reads", d),
        [&](OneSet& s) {
          four_and_twelve(s);
          for (int h = 0; h < 4; ++h) s.read(near, 51, 0);
        },
        near_reads, near, 30 + d);
  }
  for (const int stores : {8, 10})
    for (int d = 0; d < stores; ++d)
      check(
          numbered("T18 " + std::to_string(stores) + " stores; k reads", d),
          [&](OneSet& s) { s.write(near, 30, stores, 0); }, near_reads, near, 30 + d);
  CHECK(rows.size() == 11 + 9 + 3 + 4 * (6 + 6 + 1) + 18);
}

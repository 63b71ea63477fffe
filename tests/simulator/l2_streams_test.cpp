// The cache model against streams of known order on an H200 (docs/measurements/h200_l2_streams.txt, which
// says what each does): what they read, write, send between the sides of L2 and leave dirty.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "simulator/compare/card_record.h"
#include "simulator/executors/l2/agenda.h"
#include "simulator/executors/l2/cache.h"

using namespace flashsim;

namespace {

constexpr std::int64_t l2_bytes = 62'914'560, tile = 16384, line = 4096, lines_a_tile = tile / line;
constexpr int sms = 132;
/// A twentieth of L2: the model's sets, of 16 lines each, hold one more or less than the card's.
constexpr double near_enough = 0.05 * 62.9;  // MB

struct Bytes {
  double read = 0, written = 0, fabric = 0;  // MB
};
struct Measured {
  std::vector<Bytes> kernels;
  double left = 0;
};

/// By label; of the two runs of each the first.
std::map<std::string, Measured> measured_streams() {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/h200_l2_streams.txt");
  REQUIRE(file.good());
  std::map<std::string, Measured> all;
  for (std::string text; std::getline(file, text);) {
    std::istringstream fields(text);
    std::string field;
    std::getline(fields, field, '\t');
    if (text[0] == '#' || all.count(field) > 0) continue;
    Measured& m = all[field];
    while (std::getline(fields, field, '\t')) {
      std::istringstream words(field.substr(1));
      std::map<std::string, double> values;
      for (std::string name; words >> name;) words >> values[name];
      if (values.count("left") > 0)
        m.left = values["left"];
      else
        m.kernels.push_back({values["dr"], values["dw"], values["fab"]});
    }
  }
  return all;
}

/// 132 thread blocks, or the first few, that take turns at tiles, and drift apart a little as they do.
class Streams {
 public:
  explicit Streams(std::uint64_t seed)
      : side_(card().sides.back()), cache_(l2_bytes, 2, line, seed, card().usable), draws_(seed + 4) {
    for (std::uint32_t& first : buffer_) first = cache_.add_lines((std::uint64_t{512} << 20) / line, 0);
  }
  /// Tiles in turn for the thread blocks, `repeats` times. `reads` tiles of buffer `from`, then `writes` of
  /// buffer `to`; with from = to the same tile is read and written back.
  Bytes run(int mib, int reads, int from, int writes, int to, int repeats = 1, int blocks = sms,
            int shift = 0) {
    const int turns = mib * 64;
    std::int64_t read = 0;
    const std::int64_t cleaned = cache_.cleaned(0), fabric = cache_.fabric_lines();
    struct Place {
      int repeat = 0, at = 0;
    };
    std::vector<Place> places(static_cast<std::size_t>(blocks));
    std::vector<l2::Agenda::Entry> starts;
    for (int b = 0; b < blocks; ++b) {
      places[static_cast<std::size_t>(b)].at = b;
      starts.push_back({draws_.uniform() / 2, b});
    }
    for (l2::Agenda agenda(std::move(starts)); !agenda.empty();) {
      const auto [now, b] = agenda.top();
      Place& place = places[static_cast<std::size_t>(b)];
      if (place.at >= turns) place = {place.repeat + 1, b};
      if (place.repeat == repeats) {
        agenda.remove_top();
        continue;
      }
      const int row = place.at / blocks * blocks, width = std::min(blocks, turns - row),
                turn = row + (place.at - row + shift) % width, side = side_[static_cast<std::size_t>(b)];
      double time = 1;
      for (int k = 0; k < reads * lines_a_tile; ++k)
        if (reads_dram(cache_.read(line_of(from, turn * reads, k), side, 0))) {
          ++read;
          time += miss_penalty / lines_a_tile / (reads + writes);
        }
      for (int k = 0; k < writes * lines_a_tile; ++k) cache_.write(line_of(to, turn * writes, k), side, 0);
      place.at += blocks;
      agenda.postpone_top(now + time * (1 + noise * (2 * draws_.uniform() - 1)));
    }
    return {mb(read), mb(cache_.cleaned(0) - cleaned), mb(cache_.fabric_lines() - fabric)};
  }
  double left() const { return mb(cache_.dirty(0)); }

 private:
  static constexpr double noise = 0.3, miss_penalty = 0.4;  // as in sweep.cpp
  static const Card& card() {
    static const Card card = [] {
      std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/h200_l2_card.json");
      return card_from_json({std::istreambuf_iterator<char>(file), {}});
    }();
    return card;
  }
  std::uint32_t line_of(int buffer, int first_tile, int k) const {
    return buffer_[buffer] + static_cast<std::uint32_t>(first_tile * lines_a_tile + k);
  }
  static double mb(std::int64_t lines) { return static_cast<double>(lines * line) / 1e6; }

  std::vector<int> side_;
  l2::Cache cache_;
  l2::Draws draws_;
  std::uint32_t buffer_[2] = {};
};

/// What a stream does, at a place in memory as good as most: every value's median of nine places.
struct AtPlaces {
  Bytes bytes;
  double left = 0;
};
template <class Run>
AtPlaces at_places(const Run& run) {
  std::vector<double> values[4];
  for (std::uint64_t seed = 1; seed <= 9; ++seed) {
    Streams s(seed);
    const Bytes b = run(s);
    const double here[] = {b.read, b.written, b.fabric, s.left()};
    for (int i = 0; i < 4; ++i) values[i].push_back(here[i]);
  }
  for (std::vector<double>& v : values) std::nth_element(v.begin(), v.begin() + 4, v.end());
  return {{values[0][4], values[1][4], values[2][4]}, values[3][4]};
}

}  // namespace

TEST_CASE("streams leave as much dirty as was measured: far writes take room twice, and there is a limit") {
  const auto measured = measured_streams();
  for (const int mib : {8, 16, 24, 28, 32, 40, 64, 128}) {
    const Measured& m = measured.at("A write " + std::to_string(mib));
    const auto [bytes, left] = at_places([&](Streams& s) { return s.run(mib, 0, 0, 1, 1); });
    CAPTURE(mib);
    CHECK(std::fabs(left - m.left) <= near_enough);
    CHECK(std::fabs(bytes.written - m.kernels[0].written) <= near_enough);
    CHECK(bytes.fabric == doctest::Approx(m.kernels[0].fabric).epsilon(0.08));
  }
  for (const auto& [reads, writes] : {std::pair{1, 1}, {2, 1}, {3, 1}, {4, 1}, {1, 2}}) {
    const Measured& m =
        measured.at("B read " + std::to_string(reads) + " write " + std::to_string(writes) + " kind 0");
    const int r = reads, w = writes;
    const double left = at_places([&](Streams& s) { return s.run(128 / std::max(r, w), r, 0, w, 1); }).left;
    CAPTURE(reads);
    CAPTURE(writes);
    CHECK(std::fabs(left - m.left) <= near_enough);
  }
}

TEST_CASE("what was written and what is read push each other out in order of use, as measured") {
  const auto measured = measured_streams();
  for (const int mib : {8, 16, 24, 28, 32, 36, 40, 44, 48, 64}) {
    const Measured& m = measured.at("C write 16 then read " + std::to_string(mib) + " kind 0");
    const auto [bytes, left] = at_places([&](Streams& s) {
      s.run(16, 0, 0, 1, 1);
      return s.run(mib, 1, 0, 0, 1);
    });
    CAPTURE(mib);
    CHECK(std::fabs(bytes.written - m.kernels[1].written) <= near_enough);
    CHECK(std::fabs(left - m.left) <= near_enough);
  }
  for (const int mib : {16, 24, 28, 32, 36, 40, 56, 64, 80}) {  // from 44 to 52 single sets decide
    const Measured& m = measured.at("D write " + std::to_string(mib) + " then read it, same SM");
    const Bytes bytes = at_places([&](Streams& s) {
                          s.run(mib, 0, 0, 1, 1);
                          return s.run(mib, 1, 1, 0, 1);
                        }).bytes;
    CAPTURE(mib);
    CHECK(std::fabs(bytes.read - m.kernels[1].read) <= 0.15 * mib);
    if (mib <= 28) CHECK(bytes.fabric <= 0.02 * mib);  // the writer's own copies
  }
}

TEST_CASE("what is used again and again stays up to 40 MiB and is gone at 52, as measured") {
  const auto measured = measured_streams();
  for (const int mib : {24, 28, 32, 36, 40, 52, 56, 64}) {
    const Measured& m = measured.at("F read " + std::to_string(mib) + " 4 times, same SM");
    const Bytes bytes = at_places([&](Streams& s) {
                          s.run(mib, 1, 0, 0, 1);
                          return s.run(mib, 1, 0, 0, 1, 3);
                        }).bytes;
    CAPTURE(mib);
    CHECK(std::fabs(bytes.read - m.kernels[1].read) <= 0.1 * 3 * 1.05 * mib);
  }
  // On one side: 28 MiB fit, 36 do not.
  for (const int mib : {16, 20, 24, 36, 40, 48}) {
    const Measured& m = measured.at("G 8 blocks update " + std::to_string(mib) + " 8 times");
    const Bytes bytes = at_places([&](Streams& s) { return s.run(mib, 1, 1, 1, 1, 8, 8); }).bytes;
    CAPTURE(mib);
    CHECK(std::fabs(bytes.read - m.kernels[0].read) <= 0.05 * 8 * mib);
    CHECK(std::fabs(bytes.written - m.kernels[0].written) <= 0.1 * 8 * mib);
    CHECK(bytes.fabric == doctest::Approx(m.kernels[0].fabric).epsilon(0.08));
  }
}

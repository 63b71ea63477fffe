// What is measured of one card's L2: sides of SMs, the share that holds data, the file, and what the model
// makes of them.
#include "simulator/executors/l2/card.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "simulator/compare/card_record.h"
#include "simulator/executors/l2/draws.h"
#include "simulator/executors/l2/l2.h"
#include "simulator/executors/l2/sweep.h"

using namespace flashsim;

namespace {

/// Waits of SMs on sides "0110..." for lines at home on either side: `far` cycles more for those of the other
/// one, besides what each SM and each line adds, and noise.
std::vector<std::vector<double>> waits(const std::string& sides, double far) {
  l2::Draws draws(3);
  std::vector<double> of_line;
  for (int k = 0; k < 64; ++k) of_line.push_back(20 * draws.uniform());
  std::vector<std::vector<double>> all;
  for (const char side : sides) {
    const double of_sm = 30 * draws.uniform();
    std::vector<double>& row = all.emplace_back();
    for (int k = 0; k < 64; ++k)
      row.push_back(300 + of_sm + of_line[static_cast<std::size_t>(k)] + 10 * draws.uniform() +
                    (k % 2 == side - '0' ? 0 : far));
  }
  return all;
}

Card card(std::vector<std::vector<int>> sides) {
  Card c;
  c.device = "A card";
  c.l2_bytes = 60 << 20;
  c.partitions = 2;
  c.usable = 0.96;
  c.repeats = 20;
  c.points = {{8 << 20, 8e6, 16e7, 1e6, 0.001}};
  c.sides = std::move(sides);
  return c;
}

std::string error_of(const std::string& text) {
  try {
    card_from_json(text);
  } catch (const RecordError& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("SMs that wait longer for the same lines are on one side") {
  const std::string sides = "001111110000001100111111000000110";
  const std::vector<int> found = sides_of_sms(waits(sides, 80));
  REQUIRE(found.size() == sides.size());
  for (std::size_t i = 0; i < sides.size(); ++i) CHECK(found[i] == sides[i] - '0');
  // Noise alone has no pattern: L2 is not divided.
  for (const int side : sides_of_sms(waits(sides, 0))) CHECK(side == 0);
  CHECK_THROWS_AS(sides_of_sms({}), std::invalid_argument);
  CHECK_THROWS_AS(sides_of_sms({{}}), std::invalid_argument);
  CHECK_THROWS_AS(sides_of_sms({{1, 2}, {1}}), std::invalid_argument);
}

TEST_CASE("the share of L2 that holds data is found again from a sweep") {
  const Gpu& h200 = *find_gpu("h200");
  for (const double usable : {0.85, 0.93}) {
    std::vector<RereadPoint> points;
    std::uint64_t place = 100;  // each buffer lies at its own, and none where usable_share has it
    for (const int mib : {16, 28, 30, 32, 34, 36, 38, 40, 80})
      points.push_back({std::int64_t{mib} << 20, 0, 0, 0,
                        simulate_reread(h200, std::int64_t{mib} << 20, 5, ++place, usable).warm_miss_share});
    CHECK(std::fabs(usable_share(h200, points, 5) - usable) < 0.015);
  }
  CHECK(usable_share(h200, {}, 5) == 0.95);
}

TEST_CASE("a launch has the sides of the smallest measured one that is as large") {
  const Card c = card({{0, 0}, {0, 0, 1, 1}});
  CHECK(c.sides_of(1) == &c.sides[0]);
  CHECK(c.sides_of(2) == &c.sides[0]);
  CHECK(c.sides_of(3) == &c.sides[1]);
  CHECK(c.sides_of(5) == nullptr);
}

TEST_CASE("a card's data survive being written and read") {
  Card c = card({{0, 0}, {0, 1, 1, 0}});
  c.date = "2026-11-30";
  const Card back = card_from_json(to_json(c));
  CHECK(back.device == c.device);
  CHECK(back.date == c.date);
  CHECK(back.l2_bytes == c.l2_bytes);
  CHECK(back.partitions == 2);
  CHECK(back.usable == c.usable);
  CHECK(back.repeats == 20);
  CHECK(back.sides == c.sides);
  REQUIRE(back.points.size() == 1);
  CHECK(back.points[0].miss_share == 0.001);
  CHECK(card_file_name("NVIDIA H200") == "nvidia-h200.json");
  CHECK(card_file_name("NVIDIA A100-SXM4-80GB") == "nvidia-a100-sxm4-80gb.json");
  CHECK(card_file_name("../..") == "card.json");
}

TEST_CASE("what is no card's data is refused, with what was expected") {
  CHECK(error_of("no JSON").find("flashsim sweep-l2") != std::string::npos);
  CHECK(error_of("{}").find("schema_version") != std::string::npos);
  CHECK(error_of(R"({"schema_version": 7})").find("reads version 1") != std::string::npos);
  const auto with = [](auto change) {
    Card c = card({{0, 0}});
    change(c);
    return error_of(to_json(c));
  };
  CHECK(with([](Card&) {}).empty());
  CHECK(with([](Card& c) { c.device.clear(); }).find("device") == 0);
  CHECK(with([](Card& c) { c.l2_bytes = 0; }).find("l2_bytes is 0") == 0);
  CHECK(with([](Card& c) { c.partitions = 3; }).find("partitions is 3") == 0);
  CHECK(with([](Card& c) { c.usable = 1.5; }).find("usable") == 0);
  CHECK(with([](Card& c) { c.usable = std::nan(""); }).find("expected") != std::string::npos);
  CHECK(with([](Card& c) { c.sides = {{0, 1}, {1}}; }).find("sides: launch 2") == 0);
  std::string text = to_json(card({{0, 1}}));
  text.replace(text.find("\"01\""), 4, "\"0x\"");
  CHECK(error_of(text).find("expected a digit 0 or 1") != std::string::npos);
}

TEST_CASE("the card that is shipped is divided, and its first thread blocks sit on one side") {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/h200_l2_card.json");
  const Card c = card_from_json({std::istreambuf_iterator<char>(file), {}});
  CHECK(c.device == "NVIDIA H200");
  CHECK(c.partitions == 2);
  CHECK(c.l2_bytes == find_gpu("h200")->l2_bytes);
  REQUIRE(!c.sides.empty());
  CHECK(c.sides.back().size() == static_cast<std::size_t>(find_gpu("h200")->sm_count));
  int ones = 0;
  for (const int side : c.sides.back()) ones += side;
  CHECK(std::abs(2 * ones - find_gpu("h200")->sm_count) <= 12);  // two halves of the SMs
  for (const int side : *c.sides_of(4)) CHECK(side == (*c.sides_of(4))[0]);
}

TEST_CASE("few thread blocks on one side have half of L2 for their copies") {
  // FlashAttention-1's backward pass of 4 heads goes round through 40 MiB: with copies on one side only, that
  // side is full.
  Problem p;
  p.heads_q = 16, p.heads_kv = 4;
  p.seqlen_q = p.seqlen_k = 4096;
  p.head_dim = 64;
  p.causal = true;
  const Algorithm& fa1 = *find_algorithm("fa1");
  const auto dram = [&](const Card& c) {
    L2Options options;
    options.card = &c;
    return simulate_l2(fa1.backward, p, fa1.tiling(p), options).total().dram();
  };
  CHECK(dram(card({{0, 0, 0, 0}})) > 2 * dram(card({{0, 1, 0, 1}})));
  Card small = card({{0, 1, 0, 1}});
  small.l2_bytes /= 4;
  CHECK(dram(small) > 2 * dram(card({{0, 1, 0, 1}})));
}

// The L2 model against the recorded re-read sweep of an H200.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "simulator/executors/l2/sweep.h"

using namespace flashsim;

TEST_CASE("re-reading 8 to 128 MiB misses as often as the H200's counters say") {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/h200_l2_sweep.csv");
  double sum_of_squares = 0, worst = 0, worst_fabric = 0;
  int points = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line[0] == 'M') continue;
    std::istringstream stream(line);
    std::vector<double> field;
    for (std::string f; std::getline(stream, f, ',');) field.push_back(std::stod(f));
    REQUIRE(field.size() == 5);
    const auto bytes = static_cast<std::int64_t>(field[0]) << 20;
    const SweepPoint p = simulate_reread(*find_gpu("h200"), bytes, 20);
    const double error = std::fabs(p.warm_miss_share - field[4]);
    const double read = static_cast<double>(bytes) * 20;
    CAPTURE(field[0]);
    CAPTURE(p.warm_miss_share);
    CAPTURE(field[4]);
    CHECK(error <= 0.06);  // six seeds: 0.055; random replacement without drift: 0.28
    worst = std::max(worst, error);
    worst_fabric = std::max(worst_fabric, std::fabs(p.fabric_bytes - field[3]) / read);
    sum_of_squares += error * error;
    ++points;
  }
  REQUIRE(points == 18);
  const double rms = std::sqrt(sum_of_squares / points);
  CHECK(rms <= 0.025);
  MESSAGE("miss share: rms error " << rms << ", worst " << worst << "; fabric bytes: worst " << worst_fabric
                                   << " of the bytes read");
}

TEST_CASE("a buffer that fits is read once, one that is much too large every time") {
  const Gpu& h200 = *find_gpu("h200");
  CHECK(simulate_reread(h200, 1 << 20, 5).warm_miss_share == 0);
  CHECK(simulate_reread(h200, 1 << 20, 5).dram_read_bytes == 1 << 20);
  CHECK(simulate_reread(h200, 1LL << 30, 2).warm_miss_share > 0.999);
  Gpu one = *find_gpu("rtx4090");
  CHECK(simulate_reread(one, 64 << 20, 3).fabric_bytes == 0);
  one.l2_bytes = 0;
  CHECK(simulate_reread(one, 1 << 20, 5).warm_miss_share == 1);
}

TEST_CASE("what cannot be swept is refused") {
  CHECK_THROWS_AS(simulate_reread(*find_gpu("h200"), 100, 20), std::invalid_argument);
  CHECK_THROWS_AS(simulate_reread(*find_gpu("h200"), 1 << 20, 1), std::invalid_argument);
}

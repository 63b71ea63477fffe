// Answers of lessons 1 to 4 against closed forms and published figures.
#include <doctest/doctest.h>

#include <cmath>

#include "lessons/course/lesson.h"

using namespace flashsim;
using namespace flashsim::course;

namespace {

Facts facts_of(int lesson, const Settings& s) { return find_lesson(lesson)->run(s); }
Facts facts_of(int lesson) { return facts_of(lesson, find_lesson(lesson)->defaults); }

}  // namespace

TEST_CASE("1: 32 MB from HBM, and the ridge") {
  // An A100 80 GB: 2.039 TB/s and 312 TFLOP/s by its data sheet.
  const Facts f = facts_of(1);
  CHECK(f.value("hbm_us") == doctest::Approx(32e6 / 2.039e12 * 1e6));
  CHECK(f.value("flops_per_byte") == doctest::Approx(312e12 / 2.039e12));
  // Row max, subtract, exp, sum and divide: 5 n^2 FLOPs for 4 n^2 bytes.
  CHECK(f.value("softmax_intensity") == doctest::Approx(5.0 / 4).epsilon(0.01));
}

TEST_CASE("2: 4 n^2 + 4 n d elements, and the share of S and P") {
  for (const int n : {256, 4096, 10000})
    for (const int d : {64, 128}) {
      Settings s = find_lesson(2)->defaults;
      s.n = n;
      s.d = d;
      const Facts f = facts_of(2, s);
      const double square = double(n) * n, rows = double(n) * d;
      CHECK(f.value("head_elements") == doctest::Approx(4 * square + 4 * rows));
      CHECK(f.value("matrix_mb") == doctest::Approx(2 * square / 1e6));
      CHECK(f.value("score_percent") == doctest::Approx(100 * square / (square + rows)));
    }
  // The introduction's 97 %.
  CHECK(std::round(facts_of(2).value("score_percent")) == 97);
}

TEST_CASE("3: five tiles, the largest block, the paper's blocks") {
  for (const int d : {64, 128}) {
    Settings s = find_lesson(3)->defaults;
    s.d = d;
    const Facts f = facts_of(3, s);
    const auto bytes = [&](double block) { return 2 * (4 * block * d + block * block); };
    CHECK(f.value("tile_kib") == doctest::Approx(bytes(s.block) / 1024));
    const double capacity = 192 * 1024, largest = f.value("largest_block");
    CHECK(bytes(largest) <= capacity);
    CHECK(bytes(largest + 16) > capacity);
    CHECK(f.value("paper_bc") == std::ceil(capacity / 2 / (4 * d)));
    CHECK(f.value("paper_br") == std::min(f.value("paper_bc"), double(d)));
  }
  CHECK(facts_of(3).value("tile_kib") == doctest::Approx(72));  // the introduction's
  CHECK(facts_of(3).value("paper_bc") == 192);
}

TEST_CASE("4: m, l and the factors, whatever the chunk") {
  Settings s = find_lesson(4)->defaults;
  double sum = 0, wrong = 0;
  for (const double x : s.scores) sum += std::exp(x - 4.5);
  for (const double x : {1.2, 3.0}) wrong += std::exp(x - 3);
  for (const double x : {0.4, 2.1}) wrong += std::exp(x - 3);
  for (const double x : {4.5, 1.8, 3.6, 0.9}) wrong += std::exp(x - 4.5);
  CHECK(facts_of(4).value("factor") == doctest::Approx(std::exp(3 - 4.5)));
  CHECK(facts_of(4).value("wrong_sum") == doctest::Approx(wrong));
  CHECK(facts_of(4).value("overflow") == doctest::Approx(11.09).epsilon(1e-3));
  for (const int chunk : {1, 2, 3, 5, 8, 100}) {
    s.chunk = chunk;
    CHECK(facts_of(4, s).value("sum") == doctest::Approx(sum));
    CHECK(facts_of(4, s).value("lse") == doctest::Approx(4.5 + std::log(sum)));
  }
}

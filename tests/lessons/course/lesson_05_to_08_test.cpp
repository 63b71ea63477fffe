// Answers of lessons 5 to 8 against closed forms and published figures.
#include <doctest/doctest.h>

#include <cmath>

#include "lessons/course/lesson.h"

using namespace flashsim;
using namespace flashsim::course;

namespace {

Facts facts_of(int lesson, const Settings& s) { return find_lesson(lesson)->run(s); }
Facts facts_of(int lesson) { return facts_of(lesson, find_lesson(lesson)->defaults); }

}  // namespace

TEST_CASE("5: the theorem's ratio, and Algorithm 1's accesses") {
  for (const int n : {2048, 8192})
    for (const int d : {64, 128}) {
      Settings s = find_lesson(5)->defaults;
      s.n = n;
      s.d = d;
      const Facts f = facts_of(5, s);
      const double M = 192 * 1024 / 2.0, nd = double(n) * d, nn = double(n) * n;
      CHECK(f.value("theorem_ratio") == doctest::Approx((nd + nn) * M / (nn * d * d)));
      // K, V once; per visit Q, O, l, m read and O, l, m written.
      const double visits = std::ceil(n / std::ceil(M / (4 * d))),
                   accesses = 2 * nd + visits * (3 * nd + 4.0 * n);
      CHECK(f.value("visits") == visits);
      CHECK(f.value("o_written") == visits);
      CHECK(f.value("counted_flash_elements") == doctest::Approx(accesses));
      CHECK(f.value("counted_ratio") == doctest::Approx((4 * nn + 4 * nd) / accesses));
    }
  CHECK(facts_of(5).value("theorem_ratio") ==
        doctest::Approx(6.1).epsilon(0.01));  // an introduction's figure
}

TEST_CASE("6: rounding, and queries that see nothing") {
  const Facts f = facts_of(6);
  // Errors of sums of a few hundred numbers of size 1 in fp64: some units in the 16th digit.
  CHECK(f.value("exponent") >= -17);
  CHECK(f.value("exponent") <= -14);
  CHECK(f.value("empty_rows") == 5 - 2);
  CHECK(f.text("empty_output") == "0");
  CHECK(f.value("error16_fa2") < 1e-3);
  CHECK(f.value("error16_standard") < 1e-2);
}

TEST_CASE("7: one product in five more, n / 2 times less kept, dropout by its seed") {
  for (const int n : {512, 4096}) {
    Settings s = find_lesson(7)->defaults;
    s.n = n;
    const Facts f = facts_of(7, s);
    CHECK(f.value("extra_backward") == doctest::Approx(25));
    CHECK(f.value("extra_both") == doctest::Approx(100.0 / 6));
    CHECK(f.value("kept_ratio") == doctest::Approx(n / 2.0));
  }
  const Facts f = facts_of(7);
  const Table& dropout = f.table("dropout");
  REQUIRE(dropout.rows.size() == 4);
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t column : {1U, 2U}) {
      const double error = std::stod(dropout.rows[row][column]);
      if (row < 2) {
        CHECK(error < 1e-12);
      } else {
        CHECK(error > 1e-2);
      }
    }
  CHECK(f.value("order_dq") > 0);
  CHECK(f.value("order_dq") < 1e-4);
  CHECK(f.value("order_dk") == 0);
}

TEST_CASE("8: O is written T_c times by FA1 and once by FA2; warps; SMs with work") {
  for (const int block : {32, 64, 128}) {
    Settings s = find_lesson(8)->defaults;
    s.block = block;
    const Facts f = facts_of(8, s);
    CHECK(f.value("o_written") == 4096.0 / block);
    CHECK(f.value("o_written_fa2") == 1);
    CHECK(f.value("row_blocks") == 4096.0 / block);
    CHECK(f.value("bytes_ratio") > 1);
    CHECK(f.value("warp_ratio") > 1);
    CHECK(f.value("other_flops_fa1") > f.value("other_flops_fa2"));
  }
  for (const int heads : {1, 16, 54}) {
    Settings s = find_lesson(8)->defaults;
    s.heads = heads;
    CHECK(facts_of(8, s).value("busy_percent") == doctest::Approx(100.0 * heads / 108));
  }
}

// Answers of lessons 9 to 12 against closed forms, records and published figures.
#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "lessons/course/lesson.h"
#include "lessons/course/tsv.h"

using namespace flashsim;
using namespace flashsim::course;

namespace {

Facts facts_of(int lesson, const Settings& s) { return find_lesson(lesson)->run(s); }
Facts facts_of(int lesson) { return facts_of(lesson, find_lesson(lesson)->defaults); }

}  // namespace

TEST_CASE("9: n^2 exps beside 4 n^2 d FLOPs; rotation against outliers") {
  for (const int d : {64, 128, 256}) {
    Settings s = find_lesson(9)->defaults;
    s.d = d;
    const double flops = 989.4e12, exps = 16 * 1.83e9 * 132;  // an H100's, by its data sheet
    // Rescaling adds an exp a row and tile: a hundredth.
    CHECK(facts_of(9, s).value("exp_percent") ==
          doctest::Approx(100 * flops / exps / (4.0 * d)).epsilon(0.02));
  }
  const Facts f = facts_of(9);
  CHECK(f.value("rotation_gain") > 1.5);  // published: 2.4e-2 / 9.1e-3
  CHECK(f.value("rotation_gain") < 4);
  CHECK(f.value("length_after") == doctest::Approx(f.value("length_before")));
  CHECK(f.value("largest_after") < f.value("largest_before") / 2);
}

TEST_CASE("10: the KV cache's bytes, FLOPs a byte, splits") {
  for (const int heads : {1, 2, 8}) {
    Settings s = find_lesson(10)->defaults;
    s.heads = heads;
    const Facts f = facts_of(10, s);
    CHECK(f.value("kv_us") == doctest::Approx(2.0 * 2 * 65536 * 128 * heads / 2.039e12 * 1e6));
    CHECK(f.value("intensity") == doctest::Approx(8).epsilon(0.01));  // query heads that share a K/V head
    CHECK(f.value("splits") == std::ceil(108.0 / heads));
  }
  CHECK(facts_of(10).value("splits_differ") > 0);
}

TEST_CASE("11: what the SMs received is what the schedule requests") {
  const Facts f = facts_of(11);
  CHECK(f.value("launches") == 32);
  CHECK(f.value("worst_percent") < 0.05);
  // The row's own fields: 34,495,398,144 requested, 490,677,248 from DRAM.
  CHECK(f.value("l2_factor") == doctest::Approx(34495398144.0 / 490677248.0));
  CHECK(f.value("causal_factor") > 100);
  CHECK(f.value("causal_model") > 50);
  CHECK(f.value("causal_better") < 4);
}

TEST_CASE("12: 18 passes, 40.3 GB, 824.6 and 962.1 GFLOP; wrong formulas") {
  const Facts f = facts_of(12);
  CHECK(f.value("passes") == doctest::Approx(18));
  CHECK(f.value("passes_d") == doctest::Approx(12));
  CHECK(f.value("textbook_passes") == doctest::Approx(11));
  CHECK(f.value("eager_gb") == doctest::Approx(40.27).epsilon(0.001));
  CHECK(f.value("textbook_gb") == doctest::Approx(25.2).epsilon(0.005));
  CHECK(f.value("measured_gb") == doctest::Approx(40.33).epsilon(0.01));
  CHECK(f.value("fa1_128_gb") == doctest::Approx(9.597).epsilon(0.001));
  CHECK(f.value("fa1_256_gb") == doctest::Approx(5.201).epsilon(0.001));
  CHECK(f.value("fa1_384_gb") == doctest::Approx(4.102).epsilon(0.001));
  CHECK(f.value("gflops") == doctest::Approx(824.6).epsilon(0.001));
  CHECK(f.value("flash_gflops") == doctest::Approx(962.1).epsilon(0.001));
  CHECK(f.value("right_small") < 1e-5);
  CHECK(f.value("inverted_small") > 1e-2);
  CHECK(f.value("divided_small") > 1e-2);
  CHECK(f.value("outside_small") < 1e-5);
  CHECK(f.text("outside_large") == "not a number");
  CHECK(f.text("right_large") != "not a number");
}

TEST_CASE("tables with tabs") {
  const std::vector<TsvRow> rows = parse_tsv("# comment\na\tb\n1\t2\n3\t4\n");
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].at("b") == "4");
  CHECK_THROWS_AS(parse_tsv("a\tb\n1\n"), std::invalid_argument);
}

#include "cpu_reference/dropout.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

using namespace flashsim;

namespace {

Problem with_dropout(float p, std::uint64_t seed, int rows, int cols) {
  Problem problem;
  problem.heads_q = problem.heads_kv = 4;
  problem.seqlen_q = rows;
  problem.seqlen_k = cols;
  problem.head_dim = 8;
  problem.dropout_p = p;
  problem.dropout_seed = seed;
  return problem;
}

}  // namespace

TEST_CASE("Philox4x32-10 gives the known answers published with Random123") {
  struct Answer {
    std::array<std::uint32_t, 4> counter;
    std::array<std::uint32_t, 2> key;
    std::array<std::uint32_t, 4> words;
  };
  const Answer answers[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Answer& a : answers) {
    const PhiloxWords w = philox4x32_10(std::uint64_t{a.key[1]} << 32 | a.key[0], a.counter[0], a.counter[1],
                                        a.counter[2], a.counter[3]);
    for (int i = 0; i < 4; ++i) CHECK(w.word[i] == a.words[i]);
  }
}

TEST_CASE("the mask follows its definition element by element, wherever a row is cut") {
  const Problem p = with_dropout(0.3f, 1234567890123456789u, 5, 23);
  for (int head = 0; head < 4; ++head) {
    const auto factors = dropout_factors(p, head);
    for (int row = 0; row < p.seqlen_q; ++row) {
      for (int col = 0; col < p.seqlen_k; ++col) {
        const std::uint32_t word =
            philox4x32_10(p.dropout_seed, static_cast<std::uint32_t>(col / 4),
                          static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(head), 0)
                .word[col % 4];
        const bool kept = word >= std::floor(double{p.dropout_p} * 4294967296.0);
        CHECK(factors(row, col) == (kept ? 1 / (1 - double{p.dropout_p}) : 0.0));
        CHECK(dropout_keeps(p.dropout_seed, dropout_threshold(p.dropout_p), static_cast<std::uint32_t>(head),
                            static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(col)) == kept);
      }
      for (int first = 0; first < p.seqlen_k; ++first)
        for (int count = 0; first + count <= p.seqlen_k; ++count) {
          std::vector<double> part(static_cast<std::size_t>(count) + 1, -1);
          dropout_row(p, head, row, first, count, part.data());
          for (int i = 0; i < count; ++i) CHECK(part[i] == factors(row, first + i));
          CHECK(part[count] == -1);  // nothing written past the end
        }
    }
  }
}

TEST_CASE("the share of kept elements is 1 - p, for every word, row and head alike") {
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    CAPTURE(p);
    const int rows = 200, cols = 400;
    double by_word[4] = {}, sum = 0;
    for (int head = 0; head < 4; ++head) {
      const auto factors = dropout_factors(with_dropout(p, 42, rows, cols), head);
      sum += factors.sum();
      for (int row = 0; row < rows; ++row)
        for (int col = 0; col < cols; ++col) by_word[col % 4] += factors(row, col) != 0;
    }
    // Five standard deviations of a binomial share; the scaled mean is 1.
    const double n = 4.0 * rows * cols, deviation = std::sqrt(double{p} * (1 - double{p}) / n);
    CHECK(std::abs(sum / n - 1) <= 5 * deviation / (1 - double{p}));
    for (const double kept : by_word) CHECK(std::abs(kept / (n / 4) - (1 - double{p})) <= 10 * deviation);
  }
}

TEST_CASE("masks differ between heads, rows and seeds, and no dropout keeps all") {
  const Problem p = with_dropout(0.5f, 1, 64, 64);
  const auto a = dropout_factors(p, 0);
  CHECK(a == dropout_factors(p, 0));
  CHECK(a != dropout_factors(p, 1));
  CHECK(a != dropout_factors(with_dropout(0.5f, 2, 64, 64), 0));
  CHECK(a != dropout_factors(with_dropout(0.5f, 1 + (std::uint64_t{1} << 32), 64, 64), 0));
  CHECK(a.row(0) != a.row(1));
  CHECK((dropout_factors(with_dropout(0, 1, 8, 9), 0).array() == 1.0).all());
}

// How rows of S, P, dP and dS lie in memory.
#include "cpu_reference/score_layout.h"

#include <doctest/doctest.h>

#include <limits>

using namespace flashsim;

TEST_CASE("rows of n x n matrices are padded to whole sectors of 32 bytes, and by less than one") {
  CHECK(score_pitch(505, 2) == 512);
  CHECK(score_pitch(478, 2) == 480);
  CHECK(score_pitch(4057, 4) == 4064);
  CHECK(score_pitch(1, 8) == 4);
  for (const int element : {1, 2, 4, 8})
    for (int n = 1; n < 300; ++n) {
      const std::int64_t row = score_pitch(n, element) * element;
      CHECK(row % 32 == 0);
      CHECK(row >= n * element);
      CHECK(row < n * element + 32);
    }
  CHECK(score_pitch(1024, 2) == 1024);  // the papers' lengths are not padded
  CHECK(score_pitch(std::numeric_limits<int>::max(), 1) == std::int64_t{1} << 31);
}

TEST_CASE("a matrix has the rows of every query head") {
  Problem p;
  p.batch = 3, p.heads_q = 4, p.heads_kv = 2, p.seqlen_q = 7, p.seqlen_k = 33, p.head_dim = 64;
  CHECK(score_elements(p) == 3 * 4 * 7 * 48);
  p.dtype = Dtype::fp32;
  CHECK(score_elements(p) == 3 * 4 * 7 * 40);
}

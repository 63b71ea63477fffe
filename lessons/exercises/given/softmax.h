// What exercise 1 is written against.
#pragma once

#include <cstddef>

/// What is known of one row of scores so far: the largest, and the sum of exp(score - m). Of no scores at
/// all, m is -infinity and l is 0.
struct RowState {
  double m = 0, l = 0;
};

/// What the exercise defines: the state after `count` more scores (at least one; a score may be -infinity:
/// hidden).
RowState update(RowState before, const double* scores, std::size_t count);

// The dropout mask of philox.h for whole rows and heads. Which elements of P are dropped depends on the seed
// and on (head, row, column) alone, so a backward pass, any tiling and the GPU regenerate the same mask.
#pragma once

#include <Eigen/Core>

#include "cpu_reference/philox.h"
#include "cpu_reference/problem.h"

namespace flashsim {

/// What kept elements of P are multiplied by: 1 / (1 - dropout_p).
double dropout_scale(const Problem& p);

/// The factors of columns first_col ... first_col + count - 1 of one row of P: 0 where the element is
/// dropped, else dropout_scale(p). `head` counts over the batch: batch index * heads_q + query head. Without
/// dropout every factor is 1.
void dropout_row(const Problem& p, int head, int row, int first_col, int count, double* factors);

/// The factors of a whole head, (seqlen_q, seqlen_k).
Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> dropout_factors(const Problem& p,
                                                                                       int head);

}  // namespace flashsim

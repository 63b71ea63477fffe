#include "cpu_reference/dropout.h"

#include <algorithm>

namespace flashsim {

double dropout_scale(const Problem& p) { return 1.0 / (1.0 - double{p.dropout_p}); }

void dropout_row(const Problem& p, int head, int row, int first_col, int count, double* factors) {
  if (p.dropout_p == 0) {
    std::fill_n(factors, count, 1.0);
    return;
  }
  const double kept = dropout_scale(p);
  const std::uint32_t threshold = dropout_threshold(p.dropout_p);
  for (int col = first_col; col < first_col + count;) {
    const PhiloxWords words = dropout_words(p.dropout_seed, static_cast<std::uint32_t>(head),
                                            static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(col));
    const int end = std::min(col / 4 * 4 + 4, first_col + count);  // one call decides about four columns
    for (; col < end; ++col) *factors++ = words.word[col % 4] >= threshold ? kept : 0.0;
  }
}

Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> dropout_factors(const Problem& p,
                                                                                       int head) {
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> factors(p.seqlen_q, p.seqlen_k);
  for (int row = 0; row < p.seqlen_q; ++row)
    dropout_row(p, head, row, 0, p.seqlen_k, factors.row(row).data());
  return factors;
}

}  // namespace flashsim

// The oracle: naive attention in float64, written from the definition, row by row. Everything else in the
// project is compared with it. No tiles; only visible keys are evaluated, so NaN or infinity in a masked key
// leaves a row clean. Extra memory is one row of P.
//
// With s_ij = scale q_i . k_j over visible keys, m_i = max_j s_ij and z_ij the dropout factor (0 or
// 1 / (1 - p), see dropout.h; 1 without dropout):
//   P_ij = exp(s_ij - m_i) / sum_j exp(s_ij - m_i)      O_i = sum_j z_ij P_ij v_j
//   LSE_i = m_i + log sum_j exp(s_ij - m_i)
//   dP_ij = z_ij dO_i . v_j      D_i = sum_j P_ij dP_ij      dS_ij = P_ij (dP_ij - D_i)
//   dV_j = sum_i z_ij P_ij dO_i      dQ_i = scale sum_j dS_ij k_j      dK_j = scale sum_i dS_ij q_i
// (FA2, Dao 2023, sec. 2.2 and 2.3). A row that sees nothing, or whose scores are all -infinity, has O = 0,
// LSE = -infinity and gives no gradients.
#pragma once

#include <Eigen/Core>
#include <stdexcept>
#include <vector>

#include "cpu_reference/problem.h"

namespace flashsim {

/// Row-major, so that a matrix is one head of a (batch, heads, rows, cols) tensor.
using MatrixD = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// A matrix or a piece of a tensor, without a copy. Strided columns are not accepted.
using MatrixView = Eigen::Ref<const MatrixD>;

/// An invalid Problem, or a tensor whose size does not follow from it. The message says which and what was
/// expected.
class ShapeError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// ------------------------------------------------------------------------------- one row, one (batch, head)

/// What one query sees: P over the visible keys `begin` ... `begin + p.size() - 1`, before dropout.
struct AttentionRow {
  int begin = 0;
  Eigen::RowVectorXd scores;  ///< scale q . k
  Eigen::RowVectorXd p;       ///< empty where nothing is visible or every score is -infinity
  double lse = 0;             ///< -infinity where p is empty
};

struct HeadForward {
  MatrixD o;            ///< (seqlen_q, head_dim)
  Eigen::VectorXd lse;  ///< (seqlen_q), natural log
};

struct HeadGradients {
  MatrixD dq;      ///< (seqlen_q, head_dim)
  MatrixD dk, dv;  ///< (seqlen_k, head_dim): this query head's share only
};

/// Row `row` of one head. q (seqlen_q, head_dim), k (seqlen_k, head_dim).
AttentionRow attention_row(const Problem& p, int row, const MatrixView& q, const MatrixView& k);

/// One head. q (seqlen_q, head_dim); k, v (seqlen_k, head_dim). `head` = batch index * heads_q + query head
/// chooses the dropout mask and matters to nothing else. Throws ShapeError.
HeadForward oracle_forward(const Problem& p, int head, const MatrixView& q, const MatrixView& k,
                           const MatrixView& v);
/// `d_o` (seqlen_q, head_dim) is the gradient of O.
HeadGradients oracle_backward(const Problem& p, int head, const MatrixView& q, const MatrixView& k,
                              const MatrixView& v, const MatrixView& d_o);

// ------------------------------------------------------------------------------------------- whole tensors

/// Contiguous tensors in Problem's shapes: q, o, d_o, dq (batch, heads_q, seqlen_q, head_dim);
/// k, v, dk, dv (batch, heads_kv, seqlen_k, head_dim); lse (batch, heads_q, seqlen_q).
struct TensorForward {
  std::vector<double> o, lse;
};
struct TensorGradients {
  std::vector<double> dq, dk, dv;  ///< dk, dv are summed over the query heads that share a K/V head
};

/// Throws ShapeError.
TensorForward oracle_forward(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                             const std::vector<double>& v);
TensorGradients oracle_backward(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                                const std::vector<double>& v, const std::vector<double>& d_o);

/// Matrix `index` of a contiguous (count, rows, cols) tensor, seen in place. For Q and O, index = batch index
/// * heads_q + query head; for K and V see kv_head_of.
Eigen::Map<const MatrixD> matrix_of(const std::vector<double>& tensor, int index, int rows, int cols);
Eigen::Map<MatrixD> matrix_of(std::vector<double>& tensor, int index, int rows, int cols);

/// The K/V matrix that query head `head` (counted over the batch) reads: batch index * heads_kv + K/V head.
int kv_head_of(const Problem& p, int head);

}  // namespace flashsim

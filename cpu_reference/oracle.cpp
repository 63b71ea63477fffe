#include "cpu_reference/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "cpu_reference/dropout.h"

namespace flashsim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require_valid(const Problem& p) {
  if (const std::string fault = fault_of(p); !fault.empty()) throw ShapeError(fault);
}

void require_shape(const char* name, const MatrixView& x, int rows, int cols) {
  if (x.rows() == rows && x.cols() == cols) return;
  throw ShapeError(std::string(name) + " is " + std::to_string(x.rows()) + " x " + std::to_string(x.cols()) +
                   "; the problem needs " + std::to_string(rows) + " x " + std::to_string(cols));
}

void require_size(const char* name, const std::vector<double>& x, std::int64_t expected) {
  if (static_cast<std::int64_t>(x.size()) == expected) return;
  throw ShapeError(std::string(name) + " has " + std::to_string(x.size()) + " elements; the problem needs " +
                   std::to_string(expected));
}

void require_shapes(const Problem& p, const MatrixView& q, const MatrixView& k, const MatrixView& v) {
  require_valid(p);
  require_shape("Q", q, p.seqlen_q, p.head_dim);
  require_shape("K", k, p.seqlen_k, p.head_dim);
  require_shape("V", v, p.seqlen_k, p.head_dim);
}

void require_sizes(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                   const std::vector<double>& v) {
  require_valid(p);
  require_size("Q", q, elements(p, p.heads_q, p.seqlen_q, p.head_dim));
  require_size("K", k, elements(p, p.heads_kv, p.seqlen_k, p.head_dim));
  require_size("V", v, elements(p, p.heads_kv, p.seqlen_k, p.head_dim));
}

/// The dropout factors of the keys a row sees.
Eigen::RowVectorXd factors_of(const Problem& p, int head, int row, const AttentionRow& a) {
  Eigen::RowVectorXd z(a.p.size());
  dropout_row(p, head, row, a.begin, static_cast<int>(z.size()), z.data());
  return z;
}

}  // namespace

AttentionRow attention_row(const Problem& p, int row, const MatrixView& q, const MatrixView& k) {
  AttentionRow a;
  a.begin = p.first_key(row);
  const int count = std::max(0, p.end_key(row) - a.begin);
  a.lse = -kInfinity;
  if (count == 0) return a;
  a.scores = scale_of(p) * (q.row(row) * k.middleRows(a.begin, count).transpose());
  double m = -kInfinity;
  for (const double s : a.scores)
    if (!(s <= m)) m = s;  // NaN comes through, and stays or meets NaN in the sum
  if (m == -kInfinity) return a;
  a.p = a.scores.unaryExpr([m](double s) { return std::exp(s - m); });
  const double sum = a.p.sum();
  a.p /= sum;
  a.lse = m + std::log(sum);
  return a;
}

HeadForward oracle_forward(const Problem& p, int head, const MatrixView& q, const MatrixView& k,
                           const MatrixView& v) {
  require_shapes(p, q, k, v);
  HeadForward r{MatrixD::Zero(p.seqlen_q, p.head_dim), Eigen::VectorXd(p.seqlen_q)};
  for (int i = 0; i < p.seqlen_q; ++i) {
    const AttentionRow a = attention_row(p, i, q, k);
    r.lse(i) = a.lse;
    if (a.p.size() == 0) continue;
    const Eigen::RowVectorXd z = factors_of(p, head, i, a);
    r.o.row(i) = a.p.cwiseProduct(z) * v.middleRows(a.begin, a.p.size());
  }
  return r;
}

HeadGradients oracle_backward(const Problem& p, int head, const MatrixView& q, const MatrixView& k,
                              const MatrixView& v, const MatrixView& d_o) {
  require_shapes(p, q, k, v);
  require_shape("dO", d_o, p.seqlen_q, p.head_dim);
  HeadGradients g{MatrixD::Zero(p.seqlen_q, p.head_dim), MatrixD::Zero(p.seqlen_k, p.head_dim),
                  MatrixD::Zero(p.seqlen_k, p.head_dim)};
  const double scale = scale_of(p);
  for (int i = 0; i < p.seqlen_q; ++i) {
    const AttentionRow a = attention_row(p, i, q, k);
    const Eigen::Index count = a.p.size();
    if (count == 0) continue;
    const Eigen::RowVectorXd z = factors_of(p, head, i, a);
    const auto k_seen = k.middleRows(a.begin, count), v_seen = v.middleRows(a.begin, count);
    const Eigen::RowVectorXd dp = z.cwiseProduct(d_o.row(i) * v_seen.transpose());
    const Eigen::RowVectorXd ds = a.p.array() * (dp.array() - a.p.dot(dp));
    g.dq.row(i) = scale * (ds * k_seen);
    g.dk.middleRows(a.begin, count).noalias() += (scale * ds).transpose() * q.row(i);
    g.dv.middleRows(a.begin, count).noalias() += a.p.cwiseProduct(z).transpose() * d_o.row(i);
  }
  return g;
}

TensorForward oracle_forward(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                             const std::vector<double>& v) {
  require_sizes(p, q, k, v);
  TensorForward r{std::vector<double>(q.size()),
                  std::vector<double>(static_cast<std::size_t>(elements(p, p.heads_q, p.seqlen_q, 1)))};
  for (int head = 0; head < p.batch * p.heads_q; ++head) {
    const int kv = kv_head_of(p, head);
    const HeadForward h =
        oracle_forward(p, head, matrix_of(q, head, p.seqlen_q, p.head_dim),
                       matrix_of(k, kv, p.seqlen_k, p.head_dim), matrix_of(v, kv, p.seqlen_k, p.head_dim));
    matrix_of(r.o, head, p.seqlen_q, p.head_dim) = h.o;
    matrix_of(r.lse, head, p.seqlen_q, 1) = h.lse;
  }
  return r;
}

TensorGradients oracle_backward(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                                const std::vector<double>& v, const std::vector<double>& d_o) {
  require_sizes(p, q, k, v);
  require_size("dO", d_o, elements(p, p.heads_q, p.seqlen_q, p.head_dim));
  TensorGradients g{std::vector<double>(q.size()), std::vector<double>(k.size()),
                    std::vector<double>(v.size())};
  for (int head = 0; head < p.batch * p.heads_q; ++head) {
    const int kv = kv_head_of(p, head);
    const HeadGradients h = oracle_backward(
        p, head, matrix_of(q, head, p.seqlen_q, p.head_dim), matrix_of(k, kv, p.seqlen_k, p.head_dim),
        matrix_of(v, kv, p.seqlen_k, p.head_dim), matrix_of(d_o, head, p.seqlen_q, p.head_dim));
    matrix_of(g.dq, head, p.seqlen_q, p.head_dim) = h.dq;
    matrix_of(g.dk, kv, p.seqlen_k, p.head_dim) += h.dk;
    matrix_of(g.dv, kv, p.seqlen_k, p.head_dim) += h.dv;
  }
  return g;
}

Eigen::Map<const MatrixD> matrix_of(const std::vector<double>& tensor, int index, int rows, int cols) {
  return {tensor.data() + std::int64_t{index} * rows * cols, rows, cols};
}
Eigen::Map<MatrixD> matrix_of(std::vector<double>& tensor, int index, int rows, int cols) {
  return {tensor.data() + std::int64_t{index} * rows * cols, rows, cols};
}

int kv_head_of(const Problem& p, int head) {
  return head / p.heads_q * p.heads_kv + head % p.heads_q / p.group();
}

}  // namespace flashsim

#include "cpu_reference/componentwise.h"

#include <algorithm>
#include <cmath>

#include "cpu_reference/dropout.h"
#include "cpu_reference/oracle.h"
#include "cpu_reference/rounding.h"

namespace flashsim {
namespace {

double finite_or_zero(double x) { return std::isfinite(x) ? x : 0; }

double largest_element(const std::vector<double>& x) {
  double largest = 0;
  for (const double e : x) largest = std::max(largest, std::abs(finite_or_zero(e)));
  return largest;
}

double largest_row(const std::vector<double>& x, int cols) {
  double largest = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(cols)) {
    double sum = 0;
    for (int c = 0; c < cols; ++c)
      sum += finite_or_zero(x[begin + static_cast<std::size_t>(c)]) *
             finite_or_zero(x[begin + static_cast<std::size_t>(c)]);
    largest = std::max(largest, sum);
  }
  return std::sqrt(largest);
}

/// Row by row, one head after another, like the oracle.
class Sizes {
 public:
  Sizes(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
        const std::vector<double>& v, const std::vector<double>& d_o, ResultSizes& sizes)
      : p_(p), q_(q), k_(k), v_(v), d_o_(d_o), sizes_(sizes) {}

  void measure() {
    mass_ = MatrixD::Zero(p_.batch * p_.heads_kv, p_.seqlen_k);
    for (int head = 0; head < p_.batch * p_.heads_q; ++head) measure_head(head);
    sizes_.column_mass = mass_.size() > 0 ? mass_.maxCoeff() : 0;
  }

 private:
  void measure_head(int head) {
    const int kv = kv_head_of(p_, head), d = p_.head_dim;
    const auto q = matrix_of(q_, head, p_.seqlen_q, d), k = matrix_of(k_, kv, p_.seqlen_k, d);
    const MatrixD v_size = matrix_of(v_, kv, p_.seqlen_k, d).cwiseAbs();
    const MatrixD k_size = k.cwiseAbs();
    for (int i = 0; i < p_.seqlen_q; ++i) {
      const AttentionRow row = attention_row(p_, i, q, k);
      const Eigen::Index count = row.p.size();
      if (count == 0) continue;
      Eigen::RowVectorXd z(count);
      dropout_row(p_, head, i, row.begin, static_cast<int>(count), z.data());
      const Eigen::RowVectorXd weights = row.p.cwiseProduct(z);
      const auto v_seen = v_size.middleRows(row.begin, count);
      matrix_of(sizes_.o, head, p_.seqlen_q, d).row(i) = weights * v_seen;
      if (row.p.allFinite()) {
        sizes_.spread = std::max(sizes_.spread, static_cast<double>(count) * row.p.maxCoeff());
        mass_.row(kv).segment(row.begin, count) += row.p;
      }
      if (d_o_.empty()) continue;
      const Eigen::RowVectorXd d_o = matrix_of(d_o_, head, p_.seqlen_q, d).row(i).cwiseAbs();
      const Eigen::RowVectorXd g = z.cwiseProduct(d_o * v_seen.transpose());
      const Eigen::RowVectorXd ds = scale_of(p_) * row.p.array() * (g.array() + row.p.dot(g));
      matrix_of(sizes_.dq, head, p_.seqlen_q, d).row(i) = ds * k_size.middleRows(row.begin, count);
      matrix_of(sizes_.dk, kv, p_.seqlen_k, d).middleRows(row.begin, count).noalias() +=
          ds.transpose() * q.row(i).cwiseAbs();
      matrix_of(sizes_.dv, kv, p_.seqlen_k, d).middleRows(row.begin, count).noalias() +=
          weights.transpose() * d_o;
    }
  }

  const Problem& p_;
  const std::vector<double>&q_, &k_, &v_, &d_o_;
  ResultSizes& sizes_;
  MatrixD mass_;  ///< sum_i P_ij of every K/V head
};

}  // namespace

ResultSizes result_sizes(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                         const std::vector<double>& v, const std::vector<double>& d_o) {
  if (const std::string fault = fault_of(p); !fault.empty()) throw ShapeError(fault);
  const auto q_size = static_cast<std::size_t>(elements(p, p.heads_q, p.seqlen_q, p.head_dim));
  const auto k_size = static_cast<std::size_t>(elements(p, p.heads_kv, p.seqlen_k, p.head_dim));
  if (q.size() != q_size || k.size() != k_size || v.size() != k_size ||
      (!d_o.empty() && d_o.size() != q_size))
    throw ShapeError("Q (and dO) must have " + std::to_string(q_size) + " elements, K and V " +
                     std::to_string(k_size) + "; they have " + std::to_string(q.size()) + " (" +
                     std::to_string(d_o.size()) + "), " + std::to_string(k.size()) + " and " +
                     std::to_string(v.size()));
  ResultSizes r;
  r.o.assign(q_size, 0);
  if (!d_o.empty()) r.dq.assign(q_size, 0), r.dk.assign(k_size, 0), r.dv.assign(k_size, 0);
  r.logit = scale_of(p) * largest_row(q, p.head_dim) * largest_row(k, p.head_dim);
  r.q = largest_element(q), r.k = largest_element(k), r.v = largest_element(v);
  r.d_o = largest_element(d_o);
  r.dp = largest_row(d_o, p.head_dim) * largest_row(v, p.head_dim);
  Sizes(p, q, k, v, d_o, r).measure();
  return r;
}

ElementBounds element_bounds(const Problem& p, const ResultSizes& m, const KernelRoundings& r) {
  const double u = unit_roundoff(p.dtype), t = smallest_positive(p.dtype) / 2;
  const double w = unit_roundoff(p.dtype == Dtype::fp64 ? Dtype::fp64 : Dtype::fp32), x = r.exponential;
  const double n = p.seqlen_k, rows = double{1} * p.group() * p.seqlen_q, d = p.head_dim;
  const double z = 1 / (1 - double{p.dropout_p}), scale = scale_of(p), b = r.stores_scores ? 1 : 0;
  const double c = r.rounds_p ? 1 : 0;

  const double s = m.logit * ((d + 2) * w + b * u) + b * t;
  const double exponent = 2 * s + 4 * m.logit * w + x + r.tiles * (x + 2 * w) + 4 * w;
  const double rho = std::expm1(exponent);
  ElementBounds bounds;
  const double lost = r.headroom * r.flushed;
  bounds.o.relative = std::expm1(2 * rho + 2 * n * (w + lost) + u + r.output_visits * u);
  bounds.o.absolute =
      z * m.v * ((r.stores_scores ? n : m.spread) * t + m.spread * lost) + r.output_visits * t;
  bounds.lse = s + std::min(rho, 2 * exponent) + n * (w + lost) + 4 * (m.logit + std::log(n) + 2) * w;

  const double pi = 2 * rho + bounds.lse + b * u;
  bounds.dv.relative = std::expm1(pi + 2 * u + rows * w);
  bounds.dv.absolute = z * m.d_o * rows * (t + r.flushed) + t;
  const double d_error = r.stores_scores ? pi + 2 * u + n * w : bounds.o.relative;
  const double e = pi + (2 * d + n + 8) * w + (1 + 2 * b + c) * u + d_error;
  const double from_o = d * m.d_o * bounds.o.absolute,
               small_ds = t + 2 * z * m.dp * ((b + c) * t + r.flushed);
  bounds.dq.relative = std::expm1(e + n * w + r.output_visits * u);
  bounds.dq.absolute = scale * m.k * (n * small_ds + from_o) + r.output_visits * t;
  bounds.dk.relative = std::expm1(e + rows * w + u);
  bounds.dk.absolute = scale * m.q * (rows * small_ds + m.column_mass * from_o) + t;

  const double g =
      std::exp(2 * m.logit * (d + 2) * w + 4 * (m.logit + std::log(n) + 2) * w + 2 * (n + d + rows + 8) * w +
               (4 + r.output_visits) * u + 2 * r.tiles * (x + 2 * w));
  const double ds = 4 * g * g * g * z * m.dp * scale;  // of a row's sum, and of one element
  bounds.o.cap = 2 * g * z * m.v + bounds.o.absolute;
  bounds.dv.cap = rows * g * z * m.d_o + bounds.dv.absolute;
  bounds.dq.cap = ds * m.k + bounds.dq.absolute;
  bounds.dk.cap = rows * ds * m.q + bounds.dk.absolute;
  return bounds;
}

}  // namespace flashsim

#include "cpu_reference/tolerance.h"

#include <algorithm>
#include <cmath>

#include "cpu_reference/oracle.h"
#include "cpu_reference/rounding.h"

namespace flashsim {
namespace {

double largest_element(const std::vector<double>& x) {
  double largest = 0;
  for (double e : x)
    if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
  return largest;
}

double largest_row(const std::vector<double>& x, int cols) {
  double largest = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(cols)) {
    double sum = 0;
    for (int c = 0; c < cols; ++c)
      if (std::isfinite(x[begin + c])) sum += x[begin + c] * x[begin + c];
    largest = std::max(largest, sum);
  }
  return std::sqrt(largest);
}

double largest_column_mass(const Problem& p, const std::vector<double>& q, const std::vector<double>& k) {
  double largest = 0;
  for (int b = 0; b < p.batch; ++b)
    for (int kv = 0; kv < p.heads_kv; ++kv) {
      Eigen::RowVectorXd mass = Eigen::RowVectorXd::Zero(p.seqlen_k);
      for (int g = 0; g < p.group(); ++g) {
        const int head = b * p.heads_q + kv * p.group() + g;
        const auto qh = matrix_of(q, head, p.seqlen_q, p.head_dim);
        const auto kh = matrix_of(k, b * p.heads_kv + kv, p.seqlen_k, p.head_dim);
        for (int row = 0; row < p.seqlen_q; ++row) {
          const AttentionRow r = attention_row(p, row, qh, kh);
          if (r.p.size() > 0 && r.p.allFinite()) mass.segment(r.begin, r.p.size()) += r.p;
        }
      }
      largest = std::max(largest, mass.maxCoeff());
    }
  return largest;
}

}  // namespace

Magnitudes magnitudes_of(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                         const std::vector<double>& v, const std::vector<double>& d_o) {
  Magnitudes m;
  m.logit = scale_of(p) * largest_row(q, p.head_dim) * largest_row(k, p.head_dim);
  m.q = largest_element(q);
  m.k = largest_element(k);
  m.v = largest_element(v);
  if (d_o.empty()) return m;
  m.d_o = largest_element(d_o);
  m.dp = largest_row(d_o, p.head_dim) * largest_row(v, p.head_dim);
  m.column_mass = largest_column_mass(p, q, k);
  return m;
}

Tolerance tolerance_of(const Problem& p, const Magnitudes& m, const Roundings& r) {
  const Dtype narrow = p.dtype, wide = p.dtype == Dtype::fp64 ? Dtype::fp64 : Dtype::fp32;
  const double u = unit_roundoff(narrow), w = unit_roundoff(wide), t = smallest_positive(narrow);
  const double n = p.seqlen_k, d = p.head_dim, rows = double{1} * p.group() * p.seqlen_q;
  const double z = 1 / (1 - double{p.dropout_p}), scale = scale_of(p);

  const double s = m.logit * ((d + 2) * w + r.scores * u);
  const double rho = std::expm1(2 * s + 4 * m.logit * w + (8 + 6 * r.tiles) * w);
  Tolerance tol;
  tol.o = z * m.v * (2 * rho + 2 * n * w + u + r.output_visits * u + n * t);
  tol.lse = s + rho + n * w + 4 * (m.logit + std::log(n)) * w;

  const double pi = 2 * rho + tol.lse + (r.scores > 0 ? u : 0), mass = m.column_mass;
  tol.dv = z * m.d_o * (mass * (pi + 3 * u + rows * w) + rows * t);
  const double e = z * m.dp * (4 * pi + (2 * d + n + 8) * w + (3 + 4 * r.scores) * u) + d * m.d_o * tol.o;
  tol.dq = scale * m.k * (e + 2 * z * m.dp * (n * w + r.output_visits * u) + n * t);
  tol.dk = scale * m.q * (mass * (e + 2 * z * m.dp * (rows * w + u)) + rows * t);
  return tol;
}

}  // namespace flashsim

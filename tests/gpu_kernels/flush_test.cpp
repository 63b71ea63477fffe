// What the derived bounds say of exponentials that become 0 because they are small: ex2.approx.ftz.f32 gives
// 0 where 2^x is below 2^-126. The kernels' arithmetic, done here in fp32 with such an exponential, must stay
// within the bounds that count it and break those that do not.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_reference/dropout.h"
#include "cpu_reference/rounding.h"
#include "gpu_kernels/check/check_run.h"

using namespace flashsim;
using namespace flashsim::gpu;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
/// The forward and backward pass as fa2 computes them: tiles of keys from the last to the first, scores and
/// sums in fp32, P and dS rounded to the problem's dtype, exponentials below `flushed` lost, the maximum
/// renewed where it grows by more than `lag`, a power of two.
class FlushingAttention {
 public:
  FlushingAttention(const Problem& p, const Inputs& x, double flushed, double lag = 256, int tile = 64)
      : p_(p), x_(x), flushed_(flushed), lag_(static_cast<float>(std::log2(lag))), tile_(tile) {
    o.resize(x.q.size()), dq.resize(x.q.size());
    dk.resize(x.k.size()), dv.resize(x.k.size());
    for (int head = 0; head < p.batch * p.heads_q; ++head)
      for (int row = 0; row < p.seqlen_q; ++row) attend(head, row);
    for (std::vector<double>* result : {&o, &dq, &dk, &dv}) round_to(p.dtype, result->data(), result->size());
  }

  std::vector<double> o, dq, dk, dv;

  /// The largest error over its tolerance in any gradient and O.
  double worst(const Reference& r, const KernelRoundings& roundings) const {
    const ElementBounds bound = element_bounds(p_, r.sizes, roundings);
    return std::max({compare("O", o, r.forward.o, r.sizes.o, bound.o).worst,
                     compare("dQ", dq, r.backward.dq, r.sizes.dq, bound.dq).worst,
                     compare("dK", dk, r.backward.dk, r.sizes.dk, bound.dk).worst,
                     compare("dV", dv, r.backward.dv, r.sizes.dv, bound.dv).worst});
  }

 private:
  float exp2(float x) const {
    const auto y = static_cast<float>(std::exp2(static_cast<double>(x)));
    return y < flushed_ ? 0 : y;
  }
  float narrow(float x) const { return rounded(p_.dtype, x); }
  float dot(const double* a, const double* b) const {
    float sum = 0;
    for (int c = 0; c < p_.head_dim; ++c) sum += static_cast<float>(a[c]) * static_cast<float>(b[c]);
    return sum;
  }
  void add(double* sum, float factor, const double* x) const {
    for (int c = 0; c < p_.head_dim; ++c)
      sum[c] = static_cast<float>(sum[c]) + factor * static_cast<float>(x[c]);
  }

  void attend(int head, int row) {
    const std::ptrdiff_t d = p_.head_dim, n = p_.seqlen_k,
                         at = (std::ptrdiff_t{head} * p_.seqlen_q + row) * d;
    const std::ptrdiff_t kv = kv_head_of(p_, head) * n * d;
    const double *q = x_.q.data() + at, *d_o = x_.d_o.data() + at;
    const double *k = x_.k.data() + kv, *v = x_.v.data() + kv;
    const int begin = p_.first_key(row), end = p_.end_key(row);
    if (begin >= end) return;
    const auto scale = static_cast<float>(scale_of(p_)), log2e = 1.44269504F;
    std::vector<double> z(static_cast<std::size_t>(n));
    dropout_row(p_, head, row, 0, p_.seqlen_k, z.data());
    std::vector<float> s(static_cast<std::size_t>(n));
    for (int j = begin; j < end; ++j) s[static_cast<std::size_t>(j)] = scale * log2e * dot(q, k + j * d);

    double* const o_row = o.data() + at;
    float m = -infinity, l = 0;
    for (int j1 = end; j1 > begin; j1 = (j1 - 1) / tile_ * tile_) {
      const int j0 = std::max(begin, (j1 - 1) / tile_ * tile_);
      const float top = *std::max_element(s.begin() + j0, s.begin() + j1);
      if (top - m > lag_) {
        const float correction = exp2(m - top);
        m = top, l *= correction;
        for (int c = 0; c < d; ++c) o_row[c] = static_cast<float>(o_row[c]) * correction;
      }
      for (int j = j0; j < j1; ++j) {
        const float e = exp2(s[static_cast<std::size_t>(j)] - m);
        l += e;
        add(o_row, narrow(e * static_cast<float>(z[static_cast<std::size_t>(j)])), v + j * d);
      }
    }
    for (int c = 0; c < d; ++c) o_row[c] = rounded(p_.dtype, o_row[c] / l);

    const float lse = m + std::log2(l), row_d = dot(d_o, o_row);
    for (int j = begin; j < end; ++j) {
      const auto weight = static_cast<float>(z[static_cast<std::size_t>(j)]);
      const float e = exp2(s[static_cast<std::size_t>(j)] - lse);
      const float ds = narrow(e * (weight * dot(d_o, v + j * d) - row_d));
      add(dv.data() + kv + j * d, narrow(e * weight), d_o);
      add(dq.data() + at, ds * scale, k + j * d);
      add(dk.data() + kv + j * d, ds * scale, q);
    }
  }

  const Problem& p_;
  const Inputs& x_;
  double flushed_;
  float lag_;
  int tile_;
};

KernelRoundings roundings(const Problem& p, double flushed, double headroom) {
  KernelRoundings r;
  r.tiles = p.seqlen_k;  // at most
  r.flushed = flushed, r.headroom = headroom;
  return r;
}

}  // namespace

TEST_CASE("gradients: the flush of small exponentials is within the bound that counts it, only there") {
  // The random cases of `flashsim check --gpu --seed 1` whose P reaches below 2^-126: bf16, growing maximum.
  for (const int number : {116, 230, 382, 497}) {
    const Case c = random_case(1, number);
    const Problem& p = c.problem;
    CAPTURE(describe(c));
    REQUIRE(p.dtype == Dtype::bf16);
    REQUIRE(c.fill == Fill::growing_maximum);
    const Inputs x = inputs_of(c);
    const Reference r = reference_of(p, x);
    const FlushingAttention exact(p, x, 0), flushing(p, x, 0x1p-126), coarse(p, x, 0x1p-118);
    CHECK(exact.worst(r, roundings(p, 0, 1)) <= 1);
    CHECK(exact.worst(r, roundings(p, 0x1p-126, 256)) <= 1);
    CHECK(flushing.worst(r, roundings(p, 0, 1)) > 1);
    CHECK(flushing.worst(r, roundings(p, 0x1p-126, 256)) <= 1);
    CHECK(coarse.worst(r, roundings(p, 0x1p-126, 256)) > 1);  // 2^8 times the flush is found out
  }
}

TEST_CASE("O: a maximum that lags lets a factor lose its headroom times the flush, and no more") {
  // One key a tile. From the last to the first their scores are 0, then just below the lag, then so high that
  // what went before meets a factor that is lost. V of the highest is 0, so O is what should not be lost.
  Case c;
  Problem& p = c.problem;
  p.seqlen_q = 1, p.seqlen_k = 3, p.head_dim = 8, p.dtype = Dtype::bf16, p.softmax_scale = 1;
  Inputs x = inputs_of(c);
  for (std::vector<double>* tensor : {&x.q, &x.k, &x.v, &x.d_o}) std::fill(tensor->begin(), tensor->end(), 0);
  x.q[0] = 1;
  x.k[8] = rounded(p.dtype, 7.9 * std::log(2.0));
  x.k[0] = rounded(p.dtype, 127 * std::log(2.0));
  x.v[8] = 1;
  const Reference r = reference_of(p, x);
  REQUIRE(r.forward.o[0] > 0x1p-120);
  const FlushingAttention flushing(p, x, 0x1p-126, 256, 1), eager(p, x, 0x1p-126, 1, 1);
  CHECK(flushing.o[0] == 0);
  CHECK(flushing.worst(r, roundings(p, 0x1p-126, 256)) <= 1);
  CHECK(flushing.worst(r, roundings(p, 0x1p-126, 1)) > 1);
  CHECK(eager.worst(r, roundings(p, 0x1p-126, 1)) <= 1);
}

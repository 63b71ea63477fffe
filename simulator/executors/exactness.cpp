#include "simulator/executors/exactness.h"

#include <cmath>
#include <utility>

#include "cpu_reference/rounding.h"

namespace flashsim {

Comparison compare(Tensor result, const std::vector<double>& got, const std::vector<double>& expected,
                   double tolerance) {
  Comparison c;
  c.result = result;
  c.tolerance = tolerance;
  if (got.size() != expected.size()) c.error = infinity;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    const double difference = std::abs(got[i] - expected[i]);
    const double error = std::isnan(difference) ? infinity : difference;
    if (error > c.error) {
      c.error = error;
      c.at = static_cast<std::int64_t>(i);
      c.got = got[i];
      c.expected = expected[i];
    }
  }
  return c;
}

Roundings roundings_of(const Algorithm& a, const Problem& p, const Tiling& t) {
  Roundings r;
  r.tiles = (p.seqlen_k + t.block_k - 1) / t.block_k;
  if (a.name == "standard") r.scores = 1;
  if (a.name == "standard-eager") r.scores = 3;  // product, scaled, masked
  if (a.name == "fa1" && t.temporaries == p.dtype) r.output_visits = r.tiles + 1;
  return r;
}

Roundings roundings_of_any(const Problem& p, const Tiling& t) {
  const int tiles = (p.seqlen_k + t.block_k - 1) / t.block_k;
  return {.scores = 1, .output_visits = tiles + 1, .tiles = tiles};
}

Truth truth_of(const Problem& p, std::vector<double> q, std::vector<double> k, std::vector<double> v,
               std::vector<double> d_o) {
  const Dtype dtype = dtype_in_hbm(Tensor::Q, p);
  for (std::vector<double>* x : {&q, &k, &v, &d_o}) round_to(dtype, x->data(), x->size());
  Truth t{std::move(q), std::move(k), std::move(v), std::move(d_o), {}, {}, {}};
  t.forward = oracle_forward(p, t.q, t.k, t.v);
  if (!t.d_o.empty()) t.backward = oracle_backward(p, t.q, t.k, t.v, t.d_o);
  t.magnitudes = magnitudes_of(p, t.q, t.k, t.v, t.d_o);
  return t;
}

std::vector<Comparison> check_forward(const Program& forward, const Roundings& roundings, const Problem& p,
                                      const Tiling& t, const Truth& truth, ForwardResult* results) {
  ForwardResult got = run_forward(forward, p, t, truth.q, truth.k, truth.v);
  const Tolerance allowed = tolerance_of(p, truth.magnitudes, roundings);
  std::vector<Comparison> all = {compare(Tensor::O, got.o, truth.forward.o, allowed.o)};
  if (!got.lse.empty()) all.push_back(compare(Tensor::LSE, got.lse, truth.forward.lse, allowed.lse));
  if (results != nullptr) *results = std::move(got);
  return all;
}

std::vector<Comparison> check_backward(const Program& forward, const Program& backward,
                                       const Roundings& roundings, const Problem& p, const Tiling& t,
                                       const Truth& truth, BackwardResult* results) {
  BackwardResult got = run_backward(forward, backward, p, t, truth.q, truth.k, truth.v, truth.d_o);
  const Tolerance allowed = tolerance_of(p, truth.magnitudes, roundings);
  std::vector<Comparison> all = {compare(Tensor::dQ, got.dq, truth.backward.dq, allowed.dq),
                                 compare(Tensor::dK, got.dk, truth.backward.dk, allowed.dk),
                                 compare(Tensor::dV, got.dv, truth.backward.dv, allowed.dv)};
  if (results != nullptr) *results = std::move(got);
  return all;
}

}  // namespace flashsim

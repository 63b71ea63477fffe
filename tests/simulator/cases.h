// Random problems and tilings for property tests, and their comparison with the oracle.
#pragma once

#include <rapidcheck.h>

#include <cmath>
#include <string>
#include <vector>

#include "cpu_reference/oracle.h"
#include "cpu_reference/random.h"
#include "cpu_reference/rounding.h"
#include "cpu_reference/tolerance.h"
#include "simulator/executors/exactness.h"

namespace flashsim::testing {

struct Case {
  Problem p;
  Tiling t;
  std::uint64_t seed = 0;
  double stretch = 1;  ///< Q is multiplied by this: large logits
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << describe(c.p) << "; " << describe(c.t) << "; seed " << c.seed << ", Q x " << c.stretch;
}

/// Ragged shapes, every mask, grouped queries, dropout (where allowed), small blocks.
inline Case any_case(Dtype dtype, bool dropout) {
  const auto up_to = [](int hi) { return *rc::gen::inRange(1, hi + 1); };
  Case c;
  c.p.dtype = dtype;
  c.p.batch = up_to(2);
  c.p.heads_kv = up_to(2);
  c.p.heads_q = c.p.heads_kv * up_to(3);
  c.p.seqlen_q = up_to(60);
  c.p.seqlen_k = up_to(70);
  c.p.head_dim = up_to(24);
  c.p.causal = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) c.p.window_left = *rc::gen::inRange(0, 40);
  if (!c.p.causal && *rc::gen::arbitrary<bool>()) c.p.window_right = *rc::gen::inRange(0, 40);
  if (dropout && *rc::gen::arbitrary<bool>()) {
    c.p.dropout_p = 0.3f;
    c.p.dropout_seed = *rc::gen::arbitrary<std::uint64_t>();
  }
  c.t.block_q = up_to(33);
  c.t.block_k = up_to(33);
  c.t.stages = up_to(3);
  c.t.warps = 4 * up_to(3);
  c.t.num_splits = up_to(5);
  if (*rc::gen::arbitrary<bool>()) c.t.temporaries = dtype;
  if (*rc::gen::arbitrary<bool>()) c.t.order = BlockOrder::last_to_first;
  if (*rc::gen::arbitrary<bool>()) c.t.key_order = BlockOrder::last_to_first;
  c.seed = *rc::gen::inRange<std::uint64_t>(0, 1u << 20);
  c.stretch = *rc::gen::element(1.0, 1.0, 20.0);
  return c;
}

struct Inputs {
  std::vector<double> q, k, v, d_o;
};

inline Inputs inputs_of(const Case& c) {
  const auto make = [&](std::uint32_t id, int heads, int rows, double factor) {
    std::vector<double> x = random_tensor(Distribution::normal, c.seed, id,
                                          static_cast<std::size_t>(elements(c.p, heads, rows, c.p.head_dim)));
    for (double& e : x) e *= factor;
    round_to(c.p.dtype == Dtype::e4m3 ? Dtype::fp16 : c.p.dtype, x.data(), x.size());
    return x;
  };
  return {make(tensor_id::q, c.p.heads_q, c.p.seqlen_q, c.stretch),
          make(tensor_id::k, c.p.heads_kv, c.p.seqlen_k, 1),
          make(tensor_id::v, c.p.heads_kv, c.p.seqlen_k, 1),
          make(tensor_id::d_o, c.p.heads_q, c.p.seqlen_q, 1)};
}

/// Largest |x - truth|, infinite for a NaN on one side only or an infinity that does not match. NaN against
/// NaN counts as equal: inputs with NaN must give it.
inline double largest_error(const std::vector<double>& x, const std::vector<double>& truth) {
  if (x.size() != truth.size()) return infinity;
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == truth[i] || (std::isnan(x[i]) && std::isnan(truth[i]))) continue;
    const double e = std::abs(x[i] - truth[i]);
    if (!(e <= worst)) worst = std::isnan(e) ? infinity : e;
  }
  return worst;
}

/// Empty, or which result is too far from the oracle.
inline std::string forward_fault(const Algorithm& a, const Case& c, const Inputs& x) {
  const TensorForward truth = oracle_forward(c.p, x.q, x.k, x.v);
  const ForwardResult got = run_forward(a, c.p, c.t, x.q, x.k, x.v);
  const Tolerance tol = tolerance_of(c.p, magnitudes_of(c.p, x.q, x.k, x.v, {}), roundings_of(a, c.p, c.t));
  if (const double e = largest_error(got.o, truth.o); !(e <= tol.o))
    return "O is off by " + std::to_string(e) + ", allowed " + std::to_string(tol.o);
  if (got.lse.empty()) return {};
  if (const double e = largest_error(got.lse, truth.lse); !(e <= tol.lse))
    return "LSE is off by " + std::to_string(e) + ", allowed " + std::to_string(tol.lse);
  return {};
}

inline std::string backward_fault(const Algorithm& a, const Case& c, const Inputs& x) {
  const TensorGradients truth = oracle_backward(c.p, x.q, x.k, x.v, x.d_o);
  const BackwardResult got = run_backward(a, c.p, c.t, x.q, x.k, x.v, x.d_o);
  const Tolerance tol =
      tolerance_of(c.p, magnitudes_of(c.p, x.q, x.k, x.v, x.d_o), roundings_of(a, c.p, c.t));
  const auto fault = [](const char* name, double e, double allowed) {
    return !(e <= allowed) ? std::string(name) + " is off by " + std::to_string(e) + ", allowed " +
                                 std::to_string(allowed) + "; "
                           : std::string();
  };
  return fault("dQ", largest_error(got.dq, truth.dq), tol.dq) +
         fault("dK", largest_error(got.dk, truth.dk), tol.dk) +
         fault("dV", largest_error(got.dv, truth.dv), tol.dv);
}

}  // namespace flashsim::testing

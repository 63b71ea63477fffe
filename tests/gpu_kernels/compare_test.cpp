#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "cpu_reference/rounding.h"
#include "gpu_kernels/check/check_run.h"

using namespace flashsim;
using namespace flashsim::gpu;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// O of one head without the keys that `skip` names, rounded to the dtype: what a broken kernel would give.
std::vector<double> o_without_key(const Problem& p, const Inputs& x, int skip) {
  std::vector<double> o(x.q.size());
  for (int i = 0; i < p.seqlen_q; ++i) {
    std::vector<double> weight(static_cast<std::size_t>(p.seqlen_k));
    double sum = 0;
    for (int j = 0; j < p.seqlen_k; ++j) {
      double s = 0;
      for (int c = 0; c < p.head_dim; ++c)
        s += x.q[static_cast<std::size_t>(i * p.head_dim + c)] *
             x.k[static_cast<std::size_t>(j * p.head_dim + c)];
      weight[static_cast<std::size_t>(j)] = j == skip ? 0 : std::exp(s * scale_of(p));
      sum += weight[static_cast<std::size_t>(j)];
    }
    for (int c = 0; c < p.head_dim; ++c) {
      double e = 0;
      for (int j = 0; j < p.seqlen_k; ++j)
        e += weight[static_cast<std::size_t>(j)] / sum * x.v[static_cast<std::size_t>(j * p.head_dim + c)];
      o[static_cast<std::size_t>(i * p.head_dim + c)] = rounded(p.dtype, e);
    }
  }
  return o;
}

}  // namespace

TEST_CASE("NaN and Inf where the oracle is finite are failures") {
  const ElementBound bound{0, 1};
  CHECK(compare("O", {1, 2}, {1, 2.5}, {}, bound).passed());
  CHECK_FALSE(compare("O", {1, 4}, {1, 2.5}, {}, bound).passed());
  CHECK_FALSE(compare("O", {1, not_a_number}, {1, 2}, {}, bound).passed());
  CHECK_FALSE(compare("O", {infinity, 2}, {1, 2}, {}, bound).passed());
  CHECK_FALSE(compare("O", {not_a_number, 2}, {1, 2}, {}, {not_a_number, not_a_number}).passed());
  CHECK_FALSE(compare("O", {1}, {1, 2}, {}, bound).passed());
}

TEST_CASE("a finite value where the oracle is not is a failure; the worst element is named") {
  const ElementBound bound{0, 1};
  CHECK(compare("O", {not_a_number}, {infinity}, {}, bound).passed());
  CHECK_FALSE(compare("O", {5}, {infinity}, {}, bound).passed());
  CHECK_FALSE(compare("O", {5}, {not_a_number}, {}, bound).passed());
  CHECK(compare("LSE", {-infinity}, {-infinity}, {}, bound, true).passed());
  CHECK_FALSE(compare("LSE", {infinity}, {-infinity}, {}, bound, true).passed());
  CHECK_FALSE(compare("LSE", {not_a_number}, {-infinity}, {}, bound, true).passed());
  const Comparison c = compare("O", {0, 0.5, 3, 0.1}, {0, 0, 0, 0}, {1, 1, 1, 1}, {0.5, 0.5});
  CHECK(c.index == 2);
  CHECK(c.worst == doctest::Approx(3));
  CHECK(c.got == 3);
}

TEST_CASE("a kernel that forgets one key of five hundred is found out, one that only rounds is not") {
  for (const Dtype dtype : {Dtype::fp16, Dtype::bf16}) {
    Case c;
    c.problem.seqlen_q = 20, c.problem.seqlen_k = 500, c.problem.head_dim = 64, c.problem.dtype = dtype;
    const Inputs x = inputs_of(c);
    const Reference r = reference_of(c.problem, x);
    KernelRoundings roundings;
    roundings.tiles = 8;
    const ElementBound bound = element_bounds(c.problem, r.sizes, roundings).o;
    CHECK(compare("O", o_without_key(c.problem, x, -1), r.forward.o, r.sizes.o, bound).passed());
    CHECK_FALSE(compare("O", o_without_key(c.problem, x, 499), r.forward.o, r.sizes.o, bound).passed());
  }
}

TEST_CASE("sizes bound the results and equal them where nothing cancels") {
  Case c;
  c.problem.heads_q = 2, c.problem.seqlen_q = 30, c.problem.seqlen_k = 40, c.problem.head_dim = 16;
  c.problem.causal = true, c.problem.dropout_p = 0.2F, c.problem.dropout_seed = 3;
  Inputs x = inputs_of(c);
  Reference r = reference_of(c.problem, x);
  const auto bounded = [](const std::vector<double>& value, const std::vector<double>& size) {
    for (std::size_t i = 0; i < value.size(); ++i)
      if (!(std::abs(value[i]) <= size[i] * (1 + 1e-12))) return false;
    return value.size() == size.size();
  };
  CHECK(bounded(r.forward.o, r.sizes.o));
  CHECK(bounded(r.backward.dq, r.sizes.dq));
  CHECK(bounded(r.backward.dk, r.sizes.dk));
  CHECK(bounded(r.backward.dv, r.sizes.dv));
  for (double& e : x.v) e = std::abs(e);
  for (double& e : x.d_o) e = std::abs(e);
  r = reference_of(c.problem, x);
  for (std::size_t i = 0; i < r.forward.o.size(); ++i) CHECK(r.sizes.o[i] == doctest::Approx(r.forward.o[i]));
  for (std::size_t i = 0; i < r.backward.dv.size(); ++i)
    CHECK(r.sizes.dv[i] == doctest::Approx(r.backward.dv[i]));
}

TEST_CASE("random cases are valid, repeatable, quick for the oracle, and different") {
  std::set<std::string> seen;
  for (int i = 0; i < 300; ++i) {
    const Case c = random_case(5, i);
    REQUIRE(fault_of(c.problem).empty());
    CHECK(random_case(5, i).problem == c.problem);
    CHECK(double{1} * c.problem.batch * c.problem.heads_q * c.problem.seqlen_q * c.problem.seqlen_k *
              c.problem.head_dim <=
          0x1p26);
    seen.insert(describe(c));
  }
  CHECK(seen.size() > 280);
  for (const Case& c : adversarial_cases()) CHECK(fault_of(c.problem).empty());
}

TEST_CASE("device formats round-trip") {
  const std::vector<double> x = {0, 1, -2.5, 65504, 0.125};
  for (const Dtype dtype : {Dtype::fp16, Dtype::bf16, Dtype::fp32}) {
    std::vector<double> y = x;
    round_to(dtype, y.data(), y.size());
    CHECK(decode(dtype, encode(dtype, y), y.size()) == y);
  }
}

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

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

TEST_CASE("a tolerance that is no finite number is reported as the bound's fault, whatever the values") {
  const std::vector<double> same = {1, 2};
  CHECK(compare("dK", same, same, {3, 3}, {0.1, 0.1}).bound_fault.empty());
  for (const ElementBound& bound : std::vector<ElementBound>{{0, not_a_number},
                                                             {not_a_number, 1},
                                                             {not_a_number, 1, 5},
                                                             {infinity, 0},
                                                             {0, infinity},
                                                             {-1, 0}}) {
    const Comparison c = compare("dK", same, same, {3, 3}, bound);
    CHECK_FALSE(c.passed());
    CHECK(c.bound_fault.rfind("a fault of the error bound, not of the kernel: dK[0]", 0) == 0);
  }
  CHECK_FALSE(compare("dK", same, same, {3, not_a_number}, {0.1, 0.1, 5}).passed());
  CHECK_FALSE(compare("dK", same, same, {0, 0}, {infinity, 0.1}).passed());
  // With a cap, an overflowing bound is the cap; where the oracle is not finite no tolerance is needed.
  CHECK(compare("dK", {4, 2}, same, {0, 3}, {infinity, 0.1, 3}).passed());
  CHECK_FALSE(compare("dK", {4.1, 2}, same, {0, 3}, {infinity, 0.1, 3}).passed());
  CHECK(compare("dK", {not_a_number}, {infinity}, {not_a_number}, {0.1, 0.1}).passed());
}

TEST_CASE("bounds stay finite where stored scores of 1e4 round by dozens, and still find faults") {
  int cases = 0;
  for (const Case& c : adversarial_cases()) {
    if (c.fill != Fill::large_logits) continue;
    ++cases;
    const Problem& p = c.problem;
    const Inputs x = inputs_of(c);
    const Reference r = reference_of(p, x);
    KernelRoundings stored;
    stored.stores_scores = true;
    const ElementBounds bounds = element_bounds(p, r.sizes, stored);
    CHECK_FALSE(std::isfinite(bounds.dv.relative));  // so that the case is what it should be
    CHECK(compare("O", r.forward.o, r.forward.o, r.sizes.o, bounds.o).passed());
    CHECK(compare("dQ", r.backward.dq, r.backward.dq, r.sizes.dq, bounds.dq).passed());
    CHECK(compare("dK", r.backward.dk, r.backward.dk, r.sizes.dk, bounds.dk).passed());
    CHECK(compare("dV", r.backward.dv, r.backward.dv, r.sizes.dv, bounds.dv).passed());

    // P may be anything in [0, 1]: each row all on its first key passes, ten times that does not.
    std::vector<double> first = r.forward.o, more;
    const std::size_t d = static_cast<std::size_t>(p.head_dim);
    for (std::size_t row = 0; row < first.size() / d; ++row) {
      const int head = static_cast<int>(row) / p.seqlen_q;
      const std::size_t key =
          static_cast<std::size_t>(head / p.group()) * static_cast<std::size_t>(p.seqlen_k);
      std::copy_n(x.v.begin() + static_cast<std::ptrdiff_t>(key * d), d,
                  first.begin() + static_cast<std::ptrdiff_t>(row * d));
    }
    CHECK(compare("O", first, r.forward.o, r.sizes.o, bounds.o).passed());
    more = first;
    for (double& e : more) e *= 10;
    CHECK_FALSE(compare("O", more, r.forward.o, r.sizes.o, bounds.o).passed());
    // Kernels that keep S in fp32 do not get by with the cap.
    CHECK_FALSE(compare("O", first, r.forward.o, r.sizes.o, element_bounds(p, r.sizes, {}).o).passed());
    for (const auto& [result, size, bound] : {std::tuple{&r.backward.dq, &r.sizes.dq, bounds.dq},
                                              std::tuple{&r.backward.dk, &r.sizes.dk, bounds.dk},
                                              std::tuple{&r.backward.dv, &r.sizes.dv, bounds.dv}}) {
      std::vector<double> wrong = *result;
      wrong.back() += 1.01 * bound.cap;
      CHECK_FALSE(compare("gradient", wrong, *result, *size, bound).passed());
      wrong.back() = not_a_number;
      CHECK_FALSE(compare("gradient", wrong, *result, *size, bound).passed());
    }
  }
  CHECK(cases >= 3);
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

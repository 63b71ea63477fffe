#include "cpu_reference/softmax.h"

#include <doctest/doctest.h>

#include <rapidcheck.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cpu_reference/random.h"
#include "cpu_reference/rounding.h"

using namespace flashsim;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The definition in long double.
template <class Real>
std::vector<double> exact(const std::vector<Real>& x) {
  long double m = -kInfinity, sum = 0;
  for (const Real e : x) m = std::max(m, static_cast<long double>(e));
  for (const Real e : x) sum += std::exp(static_cast<long double>(e) - m);
  std::vector<double> y;
  for (const Real e : x) y.push_back(static_cast<double>(std::exp(static_cast<long double>(e) - m) / sum));
  return y;
}

/// Relative error: a sum of n terms, rescaled up to n times (three roundings a step), exponents that carry
/// half an ulp of |x - m| or |x|, and a few roundings for exp and the division.
template <class Real>
double tolerance(const std::vector<Real>& x) {
  double largest = 0;
  for (const Real e : x) largest = std::max(largest, std::abs(static_cast<double>(e)));
  const double u = std::numeric_limits<Real>::epsilon() / 2;
  return u * (3 * static_cast<double>(x.size()) + 4 * largest + 10);
}

template <class Real>
bool agrees(const std::vector<Real>& y, const std::vector<double>& expected, double relative) {
  if (y.size() != expected.size()) return false;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (!(std::abs(static_cast<double>(y[i]) - expected[i]) <=
          relative * expected[i] + static_cast<double>(std::numeric_limits<Real>::min())))
      return false;
  return true;
}

template <class Real>
std::vector<Real> scores(std::size_t n, std::uint64_t seed, double scale) {
  std::vector<Real> x(n);
  fill_random(Distribution::normal, seed, 0, 0, x.data(), n);
  for (Real& e : x) e *= static_cast<Real>(scale);
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("every form gives the definition's values", Real, float, double) {
  CHECK(rc::check("lengths 1 to 300", [] {
    const auto n = *rc::gen::inRange<std::size_t>(1, 300);
    const auto x = scores<Real>(n, *rc::gen::arbitrary<std::uint64_t>(), *rc::gen::element(0.0, 1.0, 15.0));
    const auto expected = exact(x);
    RC_ASSERT(agrees(naive_softmax(x).y, expected, tolerance(x)));
    RC_ASSERT(agrees(safe_softmax(x).y, expected, tolerance(x)));
    RC_ASSERT(agrees(online_softmax(x).y, expected, tolerance(x)));
  }));
}

TEST_CASE_TEMPLATE("accesses per element: naive 3, safe 4, online 3", Real, float, double) {
  for (const std::size_t n : {1u, 7u, 4000u}) {
    const auto x = scores<Real>(n, 1, 1);
    CHECK(naive_softmax(x).accesses.per_element(n) == 3);
    CHECK(safe_softmax(x).accesses.per_element(n) == 4);
    CHECK(online_softmax(x).accesses.per_element(n) == 3);
    CHECK(safe_softmax(x).accesses.writes == static_cast<std::int64_t>(n));
  }
}

TEST_CASE_TEMPLATE("with the k largest: safe 5, online 4, fused 1", Real, float, double) {
  for (const std::size_t n : {5u, 4000u})
    for (const int k : {1, 5}) {
      const auto x = scores<Real>(n, 2, 1);
      CHECK(safe_softmax_then_top_k(x, k).accesses.per_element(n) == 5);
      CHECK(online_softmax_then_top_k(x, k).accesses.per_element(n) == 4);
      CHECK(online_softmax_fused_top_k(x, k).accesses.per_element(n) == 1);
    }
}

TEST_CASE("the k largest are those that sorting finds") {
  CHECK(rc::check("few distinct values, so that many are equal", [] {
    const auto ints = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-3, 4)));
    const int k = *rc::gen::inRange(1, 12);
    const std::vector<double> x(ints.begin(), ints.end());
    std::vector<int> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] > x[b]; });
    order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
    const auto p = exact(x);
    std::vector<double> expected;
    for (const int i : order) expected.push_back(p[i]);
    for (const auto& top :
         {safe_softmax_then_top_k(x, k), online_softmax_then_top_k(x, k), online_softmax_fused_top_k(x, k)}) {
      RC_ASSERT(top.indices == order);
      RC_ASSERT(agrees(top.y, expected, tolerance(x)));
    }
  }));
  CHECK_THROWS_AS(online_softmax_fused_top_k(std::vector<double>{1}, 0), std::invalid_argument);
}

TEST_CASE("large scores: naive overflows, safe and online do not") {
  const std::vector<float> x = {100, 99, -100};  // exp(100) is beyond float
  CHECK(std::isnan(naive_softmax(x).y[0]));
  CHECK(agrees(safe_softmax(x).y, exact(x), tolerance(x)));
  CHECK(agrees(online_softmax(x).y, exact(x), tolerance(x)));
  CHECK(std::log(largest_finite(Dtype::fp16)) ==
        doctest::Approx(11.09).epsilon(1e-3));  // fp16 ends at e^11.1
}

TEST_CASE("-infinity, alone and among others, and NaN") {
  const double i = kInfinity, nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> nothing = {-i, -i, -i}, late = {-i, -i, 2, -i};
  for (auto* softmax : {&safe_softmax<double>, &online_softmax<double>}) {
    CHECK(softmax(nothing).y == std::vector<double>{0, 0, 0});
    CHECK(softmax(late).y == std::vector<double>{0, 0, 1, 0});
    for (const auto& bad : {std::vector<double>{nan, 1, 2}, {1, nan, 2}, {1, 2, nan}, {1, i, 2}}) {
      bool any = false;
      for (const double y : softmax(bad).y) any = any || std::isnan(y);
      CHECK(any);
    }
  }
  CHECK(chunked_softmax(nothing, 2).weights == std::vector<double>{0, 0, 0});
  CHECK(chunked_softmax(late, 1).weights == std::vector<double>{0, 0, 1, 0});
}

TEST_CASE("eight scores in chunks of two") {
  const std::vector<double> x = {1.2, 3.0, 0.4, 2.1, 4.5, 1.8, 3.6, 0.9};
  const ChunkedSoftmax r = chunked_softmax(x, 2);
  const double m[] = {3.0, 3.0, 4.5, 4.5};
  REQUIRE(r.steps.size() == 4);
  double l = 0;
  for (int c = 0; c < 4; ++c) {
    const OnlineStep& s = r.steps[c];
    CHECK(s.first == 2 * c);
    CHECK(s.count == 2);
    CHECK(s.m == m[c]);
    CHECK(s.m_before == (c == 0 ? -kInfinity : m[c - 1]));
    CHECK(s.rescale == (c == 0 ? 0 : std::exp(m[c - 1] - m[c])));
    CHECK(s.l_before == l);
    // After any chunk, l is the plain sum over all scores so far.
    double sum = 0;
    for (int j = 0; j < 2 * c + 2; ++j) sum += std::exp(x[j] - s.m);
    CHECK(std::abs(s.l - sum) <= 16 * std::numeric_limits<double>::epsilon() * sum);
    l = s.l;
  }
  const double printed[] = {0.02, 0.12, 0.01, 0.05, 0.54, 0.04, 0.22, 0.01};
  for (int j = 0; j < 8; ++j) CHECK(std::abs(r.weights[j] - printed[j]) <= 0.005);
}

TEST_CASE("the chunk's length does not change the weights") {
  const auto x = scores<double>(37, 5, 3);
  for (const int chunk : {1, 2, 5, 36, 37, 1000000000, std::numeric_limits<int>::max()}) {
    const ChunkedSoftmax r = chunked_softmax(x, chunk);
    CHECK(agrees(r.weights, exact(x), tolerance(x)));
    CHECK(r.steps.size() == (37 + std::min(chunk, 37) - 1) / std::min(chunk, 37));
    CHECK(r.steps.back().first + r.steps.back().count == 37);
  }
  CHECK_THROWS_AS(chunked_softmax(x, 0), std::invalid_argument);
  CHECK_THROWS_AS(chunked_softmax({}, 2), std::invalid_argument);
}

#include "cpu_reference/oracle.h"

#include <doctest/doctest.h>

#include <rapidcheck.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cpu_reference/dropout.h"
#include "cpu_reference/random.h"

using namespace flashsim;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

MatrixD random_matrix(std::uint64_t seed, std::uint32_t tensor, int rows, int cols) {
  MatrixD x(rows, cols);
  fill_random(Distribution::normal, seed, tensor, 0, x.data(), static_cast<std::size_t>(x.size()));
  return x;
}

struct Inputs {
  MatrixD q, k, v, d_o;
};
Inputs inputs_for(const Problem& p, std::uint64_t seed) {
  return {random_matrix(seed, tensor_id::q, p.seqlen_q, p.head_dim),
          random_matrix(seed, tensor_id::k, p.seqlen_k, p.head_dim),
          random_matrix(seed, tensor_id::v, p.seqlen_k, p.head_dim),
          random_matrix(seed, tensor_id::d_o, p.seqlen_q, p.head_dim)};
}

Problem problem(int seqlen_q, int seqlen_k, int head_dim) {
  Problem p;
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  p.head_dim = head_dim;
  return p;
}

/// A small problem with any mask, scale and dropout.
Problem any_problem() {
  Problem p = problem(*rc::gen::inRange(1, 10), *rc::gen::inRange(1, 10), *rc::gen::inRange(1, 6));
  p.causal = *rc::gen::arbitrary<bool>();
  p.window_left = *rc::gen::inRange(-1, 6);
  p.window_right = *rc::gen::inRange(-1, 4);
  p.softmax_scale = *rc::gen::element(0.0f, 0.7f);
  p.dropout_p = *rc::gen::element(0.0f, 0.4f);
  p.dropout_seed = *rc::gen::arbitrary<std::uint64_t>();
  return p;
}

bool near(double a, double b, double tolerance) { return a == b || std::abs(a - b) <= tolerance; }
bool near(const MatrixD& a, const MatrixD& b, double tolerance) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  for (Eigen::Index i = 0; i < a.size(); ++i)
    if (!near(a.data()[i], b.data()[i], tolerance)) return false;
  return true;
}

// Sums of up to ten products of normal numbers: their size times a few dozen roundings.
constexpr double kSmallSums = 1000 * kEpsilon;

}  // namespace

TEST_CASE("a case worked by hand") {
  Problem p = problem(2, 2, 1);
  p.softmax_scale = 1;
  MatrixD q(2, 1), k(2, 1), v(2, 1), d_o(2, 1);
  q << 0, 1;
  k << 0, std::log(3.0);
  v << 10, 20;
  d_o << 1, 1;
  // Query 0: scores 0, 0, weights 1/2, 1/2. Query 1: scores 0, log 3, weights 1/4, 3/4.
  const HeadForward f = oracle_forward(p, 0, q, k, v);
  CHECK(near(f.o(0, 0), 15, 20 * kEpsilon));
  CHECK(near(f.o(1, 0), 17.5, 20 * kEpsilon));
  CHECK(near(f.lse(0), std::log(2.0), 4 * kEpsilon));
  CHECK(near(f.lse(1), std::log(4.0), 4 * kEpsilon));
  // dP = v for both. dS_0 = 1/2 (10 - 15, 20 - 15); dS_1 = 1/4 (10 - 17.5), 3/4 (20 - 17.5).
  const HeadGradients g = oracle_backward(p, 0, q, k, v, d_o);
  CHECK(near(g.dv(0, 0), 0.75, 4 * kEpsilon));
  CHECK(near(g.dv(1, 0), 1.25, 4 * kEpsilon));
  CHECK(near(g.dq(0, 0), 2.5 * std::log(3.0), 100 * kEpsilon));
  CHECK(near(g.dq(1, 0), 1.875 * std::log(3.0), 100 * kEpsilon));
  CHECK(near(g.dk(0, 0), -1.875, 100 * kEpsilon));
  CHECK(near(g.dk(1, 0), 1.875, 100 * kEpsilon));
}

TEST_CASE("forward agrees with three loops over the definition") {
  CHECK(rc::check("any mask, scale and dropout", [] {
    const Problem p = any_problem();
    const Inputs x = inputs_for(p, *rc::gen::arbitrary<std::uint64_t>());
    const int head = *rc::gen::inRange(0, 100);
    const HeadForward f = oracle_forward(p, head, x.q, x.k, x.v);
    const auto z = dropout_factors(p, head);
    for (int i = 0; i < p.seqlen_q; ++i) {
      long double sum = 0;
      std::vector<long double> o(static_cast<std::size_t>(p.head_dim));
      for (int j = 0; j < p.seqlen_k; ++j) {
        if (!p.sees(i, j)) continue;
        long double s = 0;
        for (int c = 0; c < p.head_dim; ++c) s += static_cast<long double>(x.q(i, c)) * x.k(j, c);
        const long double e = std::exp(s * static_cast<long double>(scale_of(p)));
        sum += e;
        for (int c = 0; c < p.head_dim; ++c) o[c] += e * static_cast<long double>(z(i, j) * x.v(j, c));
      }
      RC_ASSERT(near(f.lse(i), sum > 0 ? static_cast<double>(std::log(sum)) : -kInfinity, kSmallSums));
      for (int c = 0; c < p.head_dim; ++c)
        RC_ASSERT(near(f.o(i, c), sum > 0 ? static_cast<double>(o[c] / sum) : 0.0, kSmallSums));
    }
  }));
}

TEST_CASE("gradients agree with difference quotients of sum(dO * O)") {
  // Central differences with a step of cube root of epsilon: what the Taylor series drops and what rounding
  // adds are both about step^2 = 4e-11 times the size of O's third derivatives and of the sum, which for
  // these shapes stays below 1000.
  const double step = std::cbrt(kEpsilon), tolerance = 1000 * step * step;
  CHECK(rc::check("any mask, scale and dropout", [=] {
    const Problem p = any_problem();
    Inputs x = inputs_for(p, *rc::gen::arbitrary<std::uint64_t>());
    const int head = *rc::gen::inRange(0, 100);
    const HeadGradients g = oracle_backward(p, head, x.q, x.k, x.v, x.d_o);
    const auto loss = [&] { return oracle_forward(p, head, x.q, x.k, x.v).o.cwiseProduct(x.d_o).sum(); };
    const auto check = [&](MatrixD& input, const MatrixD& gradient) {
      for (Eigen::Index i = 0; i < input.size(); ++i) {
        double& e = input.data()[i];
        const double at = e;
        e = at + step;
        const double above = loss();
        e = at - step;
        const double below = loss();
        e = at;
        RC_ASSERT(near(gradient.data()[i], (above - below) / (2 * step), tolerance));
      }
    };
    check(x.q, g.dq);
    check(x.k, g.dk);
    check(x.v, g.dv);
  }));
}

TEST_CASE("rows that see nothing: O = 0, LSE = -infinity, no gradient") {
  Problem p = problem(5, 2, 3);  // bottom-right: queries 0 to 2 stand before the first key
  p.causal = true;
  const Inputs x = inputs_for(p, 5);
  const HeadForward f = oracle_forward(p, 0, x.q, x.k, x.v);
  const HeadGradients g = oracle_backward(p, 0, x.q, x.k, x.v, x.d_o);
  for (int i = 0; i < 3; ++i) {
    CHECK(f.lse(i) == -kInfinity);
    CHECK((f.o.row(i).array() == 0).all());
    CHECK((g.dq.row(i).array() == 0).all());
  }
  CHECK(near(f.o.row(3), x.v.row(0), 4 * kEpsilon));  // sees the first key alone
  // Whatever the blind rows hold does not reach the others' gradients.
  Inputs y = x;
  y.q.topRows(3).setConstant(kNaN);
  y.d_o.topRows(3).setConstant(kNaN);
  const HeadGradients h = oracle_backward(p, 0, y.q, y.k, y.v, y.d_o);
  CHECK(h.dk == g.dk);
  CHECK(h.dv == g.dv);
}

TEST_CASE("scores of -infinity count as unseen when a row has no others") {
  Problem p = problem(1, 2, 1);
  MatrixD q(1, 1), k(2, 1), v(2, 1);
  q << 1;
  v << 3, 4;
  k << -kInfinity, -kInfinity;
  CHECK(oracle_forward(p, 0, q, k, v).lse(0) == -kInfinity);
  CHECK(oracle_forward(p, 0, q, k, v).o(0, 0) == 0);
  k << -kInfinity, 2;
  CHECK(oracle_forward(p, 0, q, k, v).lse(0) == 2);
  CHECK(oracle_forward(p, 0, q, k, v).o(0, 0) == 4);
}

TEST_CASE("NaN and infinity spread from visible keys and never from masked ones") {
  Problem p = problem(8, 8, 4);
  p.causal = true;
  p.window_left = 3;
  const Inputs clean = inputs_for(p, 9);
  const HeadForward expected = oracle_forward(p, 0, clean.q, clean.k, clean.v);
  for (const double bad : {kNaN, kInfinity, -kInfinity})
    for (int key = 0; key < 8; ++key)
      for (const bool in_v : {false, true}) {
        Inputs x = clean;
        (in_v ? x.v : x.k).row(key).setConstant(bad);
        const HeadForward f = oracle_forward(p, 0, x.q, x.k, x.v);
        const HeadGradients g = oracle_backward(p, 0, x.q, x.k, x.v, x.d_o);
        for (int i = 0; i < 8; ++i)
          if (!p.sees(i, key)) {
            CHECK(f.o.row(i) == expected.o.row(i));
            CHECK(f.lse(i) == expected.lse(i));
            CHECK(g.dq.row(i).allFinite());
          } else if (in_v) {
            CHECK_FALSE(f.o.row(i).allFinite());
          } else if (std::isnan(bad)) {
            CHECK_FALSE(f.o.row(i).allFinite());
            CHECK(std::isnan(f.lse(i)));
          }
      }
}

TEST_CASE("large scores do not overflow") {
  Problem p = problem(4, 6, 8);
  Inputs x = inputs_for(p, 3);
  x.q *= 1e4;
  const HeadForward f = oracle_forward(p, 0, x.q, x.k, x.v);
  const HeadGradients g = oracle_backward(p, 0, x.q, x.k, x.v, x.d_o);
  CHECK((f.o.allFinite() && f.lse.allFinite() && g.dq.allFinite() && g.dk.allFinite() && g.dv.allFinite()));
  CHECK(f.lse.cwiseAbs().maxCoeff() > 710);  // exp of it would overflow
}

TEST_CASE("what a row saw") {
  Problem p = problem(3, 7, 4);
  p.window_left = 2;
  p.window_right = 0;
  const Inputs x = inputs_for(p, 1);
  for (int i = 0; i < 3; ++i) {
    const AttentionRow a = attention_row(p, i, x.q, x.k);
    CHECK(a.begin == p.first_key(i));
    CHECK(a.p.size() == 3);
    CHECK(near(a.p.sum(), 1, 4 * kEpsilon));
    for (int j = 0; j < 3; ++j) {
      CHECK(near(a.scores(j), x.q.row(i).dot(x.k.row(a.begin + j)) / 2, kSmallSums));
      CHECK(near(std::log(a.p(j)), a.scores(j) - a.lse, kSmallSums));
    }
  }
}

TEST_CASE("whole tensors: every head reads its batch entry and its shared K/V head") {
  for (const int heads_kv : {1, 2, 6}) {
    Problem p = problem(5, 7, 3);
    p.batch = 2;
    p.heads_q = 6;
    p.heads_kv = heads_kv;
    p.causal = true;
    p.dropout_p = 0.25f;
    p.dropout_seed = 77;
    const auto draw = [&](std::uint32_t id, int heads, int rows) {
      return random_tensor(Distribution::normal, 4, id,
                           static_cast<std::size_t>(elements(p, heads, rows, 3)));
    };
    const auto q = draw(tensor_id::q, 6, 5), d_o = draw(tensor_id::d_o, 6, 5);
    const auto k = draw(tensor_id::k, heads_kv, 7), v = draw(tensor_id::v, heads_kv, 7);
    const TensorForward f = oracle_forward(p, q, k, v);
    const TensorGradients g = oracle_backward(p, q, k, v, d_o);
    std::vector<double> dk(k.size()), dv(v.size());
    for (int b = 0; b < 2; ++b)
      for (int h = 0; h < 6; ++h) {
        const int head = b * 6 + h, kv = b * heads_kv + h / (6 / heads_kv);
        CHECK(kv_head_of(p, head) == kv);
        const auto q_h = matrix_of(q, head, 5, 3), g_h = matrix_of(d_o, head, 5, 3);
        const auto k_h = matrix_of(k, kv, 7, 3), v_h = matrix_of(v, kv, 7, 3);
        const HeadForward one = oracle_forward(p, head, q_h, k_h, v_h);
        const HeadGradients back = oracle_backward(p, head, q_h, k_h, v_h, g_h);
        CHECK(matrix_of(f.o, head, 5, 3) == one.o);
        CHECK(matrix_of(f.lse, head, 5, 1) == one.lse);
        CHECK(matrix_of(g.dq, head, 5, 3) == back.dq);
        matrix_of(dk, kv, 7, 3) += back.dk;
        matrix_of(dv, kv, 7, 3) += back.dv;
      }
    CHECK(dk == g.dk);
    CHECK(dv == g.dv);
  }
}

TEST_CASE("wrong shapes and problems are refused by name") {
  const Problem p = problem(3, 4, 2);
  const Inputs x = inputs_for(p, 1);
  const auto says = [](const std::function<void()>& call, const std::string& what) {
    try {
      call();
    } catch (const ShapeError& e) {
      return std::string(e.what()).find(what) != std::string::npos;
    }
    return false;
  };
  CHECK(says([&] { oracle_forward(p, 0, x.q, x.k, x.q); }, "V is 3 x 2; the problem needs 4 x 2"));
  CHECK(says([&] { oracle_backward(p, 0, x.q, x.k, x.v, x.v); }, "dO is 4 x 2"));
  Problem wrong = p;
  wrong.heads_kv = 3;
  CHECK(says([&] { oracle_forward(wrong, 0, x.q, x.k, x.v); }, "heads_kv must divide heads_q"));
  const std::vector<double> six(6), eight(8);
  CHECK(says([&] { oracle_forward(p, eight, eight, eight); }, "Q has 8 elements; the problem needs 6"));
  CHECK(says([&] { oracle_backward(p, six, eight, eight, eight); }, "dO has 8 elements"));
}

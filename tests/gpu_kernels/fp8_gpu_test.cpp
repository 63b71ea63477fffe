// fa3 in e4m3 against the oracle. Its worst case is wider than the values, so errors are compared in the
// mean.
//
// Rounding to e4m3 (3 bits of fraction) is wrong by up to 2^-4; over numbers whose logarithm is spread
// evenly, by r = 2^-4 / sqrt(3) sqrt(3 / (8 ln 2)) = 0.0265 in the root mean square. With N(0, 1) inputs and
// scale 1 / sqrt(d), V and P are each wrong by r, and scores, which have unit variance, by sqrt(2) r from Q
// and K, which P follows: O by 2 r = 0.053 of its own size.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "cpu_reference/random.h"
#include "cpu_reference/rounding.h"
#include "gpu_kernels/check/inputs.h"
#include "gpu_kernels/kernels.h"

using namespace flashsim;
using namespace flashsim::gpu;

namespace {

constexpr double rounding = 0.0265;

struct Output {
  std::vector<double> o, lse;
};

/// Problem and inputs; the oracle sees the fp16 values that the kernel gets.
struct Fp8Case {
  Problem p;
  std::vector<double> q, k, v;

  Fp8Case(const Problem& problem, Distribution d) : p(problem) {
    p.dtype = Dtype::e4m3;
    const auto make = [&](std::uint32_t id, int heads, int rows) {
      const auto n = static_cast<std::size_t>(elements(p, heads, rows, p.head_dim));
      return decode(Dtype::fp16, encode(Dtype::fp16, random_tensor(d, 3, id, n)), n);
    };
    q = make(tensor_id::q, p.heads_q, p.seqlen_q);
    k = make(tensor_id::k, p.heads_kv, p.seqlen_k);
    v = make(tensor_id::v, p.heads_kv, p.seqlen_k);
  }

  TensorForward oracle() const {
    Problem exact = p;
    exact.dtype = Dtype::fp64;
    return oracle_forward(exact, q, k, v);
  }

  Output run(bool block_scales = true, bool incoherent = true, const char* variant = "") const {
    const Kernel* const fa3 = find_kernel("fa3", variant);
    REQUIRE(fa3 != nullptr);
    Tiling t = fa3->tiling(p, Pass::forward);
    t.fp8_block_scales = block_scales, t.fp8_incoherent_processing = incoherent;
    REQUIRE(fa3->fault(p, t, Pass::forward).empty());
    const auto on_device = [](const std::vector<double>& x) {
      const std::vector<unsigned char> bytes = encode(Dtype::fp16, x);
      DeviceBuffer b(bytes.size());
      b.copy_from_host(bytes.data(), bytes.size());
      return b;
    };
    const DeviceBuffer dq = on_device(q), dk = on_device(k), dv = on_device(v);
    const auto rows = static_cast<std::size_t>(elements(p, p.heads_q, p.seqlen_q, 1));
    DeviceBuffer o(q.size() * 2), lse(rows * 4), workspace(fa3->workspace_bytes(p, t, Pass::forward));
    for (DeviceBuffer* b : {&o, &lse, &workspace}) b->fill_bytes(0xff);
    Tensors x;
    x.q = dq.data(), x.k = dk.data(), x.v = dv.data(), x.o = o.data();
    x.lse = static_cast<float*>(lse.data()), x.workspace = workspace.data();
    fa3->launch(p, t, Pass::forward, x, nullptr);
    synchronize();
    std::vector<unsigned char> o_bytes(o.bytes()), lse_bytes(lse.bytes());
    o.copy_to_host(o_bytes.data(), o_bytes.size());
    lse.copy_to_host(lse_bytes.data(), lse_bytes.size());

    const Output output{decode(Dtype::fp16, o_bytes, q.size()), decode(Dtype::fp32, lse_bytes, rows)};
    if (*variant != 0) return output;
    // The forward kernel alone, on what is in the workspace, gives the same bits.
    const Kernel* const alone = find_kernel("fa3", "fp8-forward-only");
    REQUIRE(alone != nullptr);
    o.fill_bytes(0xff);
    alone->launch(p, t, Pass::forward, x, nullptr);
    synchronize();
    std::vector<unsigned char> again(o.bytes());
    o.copy_to_host(again.data(), again.size());
    CHECK(again == o_bytes);
    return output;
  }
};

Problem problem(int heads_q, int heads_kv, int seqlen_q, int seqlen_k, int head_dim) {
  Problem p;
  p.heads_q = heads_q, p.heads_kv = heads_kv;
  p.seqlen_q = seqlen_q, p.seqlen_k = seqlen_k, p.head_dim = head_dim;
  return p;
}

double root_mean_square(const std::vector<double>& x) {
  double sum = 0;
  for (const double e : x) sum += e * e;
  return std::sqrt(sum / static_cast<double>(x.size()));
}
double error(const std::vector<double>& got, const std::vector<double>& want) {
  std::vector<double> difference(want.size());
  for (std::size_t i = 0; i < want.size(); ++i) difference[i] = got[i] - want[i];
  return root_mean_square(difference);
}

bool runs_here() {
  const Kernel* const fa3 = find_kernel("fa3");
  Problem p = problem(1, 1, 128, 128, 128);
  p.dtype = Dtype::e4m3;
  const std::string reason =
      fa3 == nullptr ? "fa3 is not compiled" : fa3->fault(p, fa3->tiling(p, Pass::forward), Pass::forward);
  if (!reason.empty()) MESSAGE("not run: " << reason);
  return reason.empty();
}

}  // namespace

TEST_CASE(
    "e4m3: O and LSE of random inputs are as wrong as rounding makes them, masks and odd shapes included") {
  if (!runs_here()) return;
  std::vector<Problem> problems;
  for (const int d : {32, 64, 128, 256}) {
    problems.push_back(problem(4, 2, 300, 777, d));
    problems.push_back(problem(2, 2, 129, 1024, d));
    problems.push_back(problem(2, 1, 513, 513, d));
    problems.back().causal = true;
    problems.push_back(problem(2, 2, 200, 90, d));  // rows that see nothing
    problems.back().causal = true;
    problems.push_back(problem(2, 2, 400, 600, d));
    problems.back().window_left = 70, problems.back().window_right = 20;
  }
  for (const Problem& p : problems) {
    CAPTURE(describe(p));
    const Fp8Case c(p, Distribution::normal);
    const TensorForward want = c.oracle();
    const Output got = c.run();
    const double relative = error(got.o, want.o) / root_mean_square(want.o);
    CAPTURE(relative);
    CHECK(relative <= 1.25 * 2 * rounding);
    for (std::size_t i = 0; i < want.lse.size(); ++i) {
      if (std::isinf(want.lse[i]))
        CHECK(got.lse[i] == want.lse[i]);
      else
        CHECK(std::abs(got.lse[i] - want.lse[i]) <=
              8 * std::sqrt(2.0) * rounding);  // of a score's error, at most
    }
  }
}

TEST_CASE("e4m3: random signs and the Hadamard matrix tame outliers") {
  if (!runs_here()) return;
  for (const int d : {128, 256}) {
    CAPTURE(d);
    const Fp8Case c(problem(2, 2, 256, 2048, d), Distribution::outliers);
    const TensorForward want = c.oracle();
    const double both = error(c.run(true, true).o, want.o), neither = error(c.run(false, false).o, want.o),
                 no_rotation = error(c.run(true, false).o, want.o);
    CAPTURE(both);
    CAPTURE(no_rotation);
    CAPTURE(neither);
    CHECK(both < root_mean_square(want.o));
    CHECK(1.5 * both < no_rotation);  // published: 9.1e-3 against 2.4e-2
    CHECK(1.5 * both < neither);
  }
}

TEST_CASE("e4m3: a long sum of values of one sign loses nothing") {
  if (!runs_here()) return;
  // V is 1, which e4m3 has, and O is a mean of n such. What is left is P's rounding: n errors of r, weighted
  // by P, whose sum of squares is e / n for N(0, 1) scores.
  constexpr int n = 16384;
  Fp8Case c(problem(1, 1, 256, n, 128), Distribution::normal);
  for (double& e : c.v) e = 1;
  const std::vector<double> ones(c.q.size(), 1.0);
  const double wrong = error(c.run().o, ones), half_ulp = std::ldexp(1.0, -11);
  CAPTURE(wrong);
  CHECK(wrong <= 4 * rounding * std::sqrt(std::exp(1.0) / n) + half_ulp);
}

TEST_CASE("e4m3: a stale maximum is as exact as the maximum of every block, however scores grow") {
  if (!runs_here()) return;
  // P is one of four numbers that are rounded alike, see above; of it online softmax holds one exactly, the
  // largest of a row, since that is 2^8. All of P's share is sqrt(4 / 3).
  const double allowed = std::sqrt(4.0 / 3);
  // What keys are multiplied by; they are visited from last to first. 1: few blocks need a repair. growing:
  // most do, by some powers of two. leaping: P overflows, and scores are computed anew.
  const auto same = [](int, int) { return 1.0; };
  const auto growing = [](int key, int n) { return 20.0 * (n - key) / n; };
  const auto leaping = [](int key, int n) { return std::pow((n - 1 - key) / 64, 2); };
  const auto spikes = [](int key, int) { return key % 150 == 5 ? 30.0 : 1.0; };
  for (const auto& [name, factor] : std::initializer_list<std::pair<const char*, double (*)(int, int)>>{
           {"same", same}, {"growing", growing}, {"leaping", leaping}, {"spikes", spikes}})
    for (const Distribution distribution : {Distribution::normal, Distribution::outliers})
      for (const int d : {128, 256})
        for (const bool causal : {false, true}) {
          Fp8Case c(problem(2, 1, 320, 1100, d), distribution);
          c.p.causal = causal;
          for (std::size_t i = 0; i < c.k.size(); ++i)
            c.k[i] *= factor(static_cast<int>(i) / d, c.p.seqlen_k);
          round_to(Dtype::fp16, c.k.data(), c.k.size());
          const std::string what = name;
          CAPTURE(what);
          CAPTURE(describe(c.p));
          const TensorForward want = c.oracle();
          const Output stale = c.run(), online = c.run(true, true, "online-max");
          const double o = error(stale.o, want.o), o_online = error(online.o, want.o);
          const double lse = error(stale.lse, want.lse), lse_online = error(online.lse, want.lse);
          CAPTURE(o);
          CAPTURE(o_online);
          CAPTURE(lse);
          CAPTURE(lse_online);
          // Scores computed anew are summed by mma.sync in more bits than wgmma keeps: not less exact.
          CHECK(o <= allowed * o_online);
          CHECK(lse <= allowed * lse_online);
        }
}

// What schedules move, against the closed forms of the papers, exactly.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "simulator/executors/traffic.h"

using namespace flashsim;

namespace {

using std::int64_t;

int64_t requested(const std::vector<KernelTraffic>& kernels, std::string_view without = "") {
  int64_t bytes = 0;
  for (const KernelTraffic& k : kernels)
    if (k.name != without) bytes += k.requested_bytes();
  return bytes;
}
int64_t requested(Schedule s, const Problem& p, const Tiling& t, std::string_view without = "") {
  return requested(count_traffic(s, p, t), without);
}

}  // namespace

TEST_CASE("flash schedules move what the closed forms say") {
  for (const int n : {1024, 1000})
    for (const int bq : {64, 128})
      for (const int bk : {64, 96}) {
        CAPTURE(n);
        CAPTURE(bq);
        CAPTURE(bk);
        Problem p;
        p.seqlen_q = p.seqlen_k = n;
        p.head_dim = 64;
        Tiling t;
        t.block_q = bq;
        t.block_k = bk;
        t.temporaries = Dtype::fp16;
        const int64_t N = n, d = 64, e = 2, Tr = (n + bq - 1) / bq, Tc = (n + bk - 1) / bk;
        CHECK(requested(fa2_forward, p, t) == e * N * d * (2 + 2 * Tr) + 4 * N);
        CHECK(requested(fa1_forward, p, t, "initialise") ==
              e * (2 * N * d + Tc * 3 * N * d) + 4 * Tc * 4 * N);
        CHECK(requested(fa1_backward, p, t, "initialise") ==
              e * (4 * N * d + Tc * 5 * N * d) + 4 * Tc * 2 * N);
        CHECK(requested(fa2_backward, p, t) == N * d * (e * (7 + 2 * Tc) + 4 * Tc + 8) + 4 * N + 8 * N * Tc);
        t.stages = 2;
        t.warps = 8;
        if (bq == 128) CHECK(requested(fa3_forward, p, t) == requested(fa2_forward, p, t));
      }
}

TEST_CASE("decoding reads K and V once, whatever the group") {
  Problem p;
  p.seqlen_q = 1;
  p.seqlen_k = 65536;
  p.head_dim = 128;
  Tiling t;
  t.block_q = 16;
  t.block_k = 128;
  t.num_splits = 16;
  const int64_t u = int64_t{65536} * 128 * 2, S = 16, d = 128, e = 2;
  for (const int group : {1, 8}) {
    p.heads_q = group;
    const int64_t g = group;
    // Each split reads Q and writes O in fp32 and LSE; the merge reads those back and writes O in fp16 and
    // LSE.
    CHECK(requested(decoding_forward, p, t) == 2 * u + g * (S * (d * e + 8 * d + 8) + d * e + 4));
  }
}

TEST_CASE("FlashAttention's Figure 2: 40.27 GB, 824.6 and 962.1 GFLOP") {
  Problem p;
  p.batch = 64;
  p.heads_q = p.heads_kv = 16;
  p.seqlen_q = p.seqlen_k = 1024;
  p.head_dim = 64;
  Tiling whole;
  whole.block_q = whole.block_k = 1024;
  const int64_t W = int64_t{1024} * 1024 * 2 * 1024, u = int64_t{1024} * 64 * 2 * 1024;
  const auto eager = [&](const Problem& q, const EagerPasses& passes) {
    return requested(count_traffic(
        [&](Device& gpu) {
          standard_eager_forward(gpu, q, whole, passes);
          standard_eager_backward(gpu, q, whole, passes);
        },
        q, whole));
  };
  CHECK(eager(p, {}) == 18 * W + 12 * u);
  Problem dropped = p;
  dropped.dropout_p = 0.1f;
  CHECK(eager(dropped, {.separate_scale = false, .additive_mask = true, .fused_softmax_backward = true}) ==
        18 * W + 12 * u);
  CHECK(requested(standard_forward, p, whole) + requested(standard_backward, p, whole) == 11 * W + 12 * u);
  const auto flops = [&](Schedule s, const Tiling& t) { return sum(count_traffic(s, p, t)).matmul_flops; };
  CHECK(flops(standard_forward, whole) + flops(standard_backward, whole) ==
        6 * int64_t{2} * 1024 * 1024 * 64 * 1024);
  CHECK(flops(fa1_forward, {}) + flops(fa1_backward, {}) == 7 * int64_t{2} * 1024 * 1024 * 64 * 1024);
}

TEST_CASE("causal tiles that hold nothing visible are neither loaded nor computed") {
  Problem p;
  p.seqlen_q = p.seqlen_k = 4096;
  p.head_dim = 128;
  p.causal = true;
  Tiling t;
  t.block_q = t.block_k = 128;
  const int64_t N = 4096, d = 128, e = 2, Tr = 32;
  CHECK(requested(fa2_forward, p, t) == e * N * d * (3 + Tr) + 4 * N);
  CHECK(sum(count_traffic(fa2_forward, p, t)).matmul_flops == 4 * 128 * 128 * d * (Tr * (Tr + 1) / 2));
}

TEST_CASE("one head multiplied is every head counted") {
  CHECK(rc::check([] {
    Problem p;
    p.batch = *rc::gen::inRange(1, 3);
    p.heads_kv = *rc::gen::inRange(1, 3);
    p.heads_q = p.heads_kv * *rc::gen::inRange(1, 4);
    p.seqlen_q = *rc::gen::inRange(1, 50);
    p.seqlen_k = *rc::gen::inRange(1, 50);
    p.head_dim = *rc::gen::inRange(1, 20);
    p.causal = *rc::gen::arbitrary<bool>();
    if (*rc::gen::arbitrary<bool>()) p.window_left = *rc::gen::inRange(0, 30);
    Tiling t;
    t.block_q = *rc::gen::inRange(1, 20);
    t.block_k = *rc::gen::inRange(1, 20);
    t.num_splits = *rc::gen::inRange(1, 4);
    for (const Algorithm& a : algorithms())
      for (Schedule s : {a.forward, a.backward}) {
        if (s == nullptr) continue;
        Traffic all(p, t);
        SerialDevice gpu(p, all, Heads::all);
        s(gpu, p, t);
        const KernelTraffic full = sum(all.kernels()), one = sum(count_traffic(s, p, t));
        RC_ASSERT(full.requested_bytes() == one.requested_bytes());
        RC_ASSERT(full.total().elements() == one.total().elements());
        RC_ASSERT(full.sram_bytes() == one.sram_bytes());
        RC_ASSERT(full.matmul_flops == one.matmul_flops);
        RC_ASSERT(full.exps == one.exps);
        RC_ASSERT(full.other_flops == one.other_flops);
        RC_ASSERT(full.blocks == one.blocks);
      }
  }));
}

TEST_CASE("splitting K over warps costs shared-memory traffic that splitting Q does not") {
  Problem p;
  p.seqlen_q = p.seqlen_k = 128;
  p.head_dim = 64;
  Tiling t;
  t.block_q = 128;
  t.block_k = 128;
  t.warps = 4;
  const KernelTraffic q = sum(count_traffic(fa2_forward, p, t));
  t.split = WarpSplit::key;
  const KernelTraffic k = sum(count_traffic(fa2_forward, p, t));
  // One tile: Q, K, V of 16 KiB each. Split Q: Q once, K and V by all four warps. Split K: Q by all four, K
  // and V once, and four partial O of 32 KiB go into shared memory and back.
  CHECK(q.sram_filled == 3 * 16384);
  CHECK(q.sram_fetched == 16384 * (1 + 4 + 4));
  CHECK(k.sram_filled == 3 * 16384 + 4 * 32768);
  CHECK(k.sram_fetched == 16384 * (4 + 1 + 1) + 4 * 32768);
}

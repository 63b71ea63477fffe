// Timelines against closed forms: no overlap is the sum of the operations' times, full overlap the busiest
// unit, rings and ping-pong what can be worked out by hand.
#include "simulator/executors/timeline/timeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "simulator/executors/traffic.h"
#include "tests/simulator/cases.h"

using namespace flashsim;
using timeline::KernelTimeline;
using timeline::Request;
using timeline::Sharing;
using timeline::Unit;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// Sums of a few thousand doubles.
bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)) + 1e-6; }

Problem ragged() {
  Problem p;
  p.heads_q = 2;
  p.seqlen_q = 90;
  p.seqlen_k = 105;
  p.head_dim = 16;
  p.causal = true;
  return p;
}

Tiling tiling_of(const Algorithm& a, const Problem& p) {
  Tiling t = a.tiling(p);
  t.block_q = 32;
  t.block_k = 16;
  t.num_splits = 2;
  return t;
}

/// Everything one head does, on one SM.
Request whole_head(const Problem& p) {
  Request r;
  r.rates = timeline::sm_rates(*find_gpu("h100"), p.dtype);
  r.most_blocks = 1 << 20;
  return r;
}

/// A request with rates of one's own: matmul FLOPs, exps, other FLOPs, bytes a clock.
Request with_rates(double matmul, double exps, double other, double bytes) {
  Request r;
  r.rates.clock_hz = 1e9;
  r.rates.per_clock = {matmul, exps, other, bytes};
  return r;
}

template <class Body>
Program one_block(const Problem& p, const Tiling& t, const Body& body) {
  return [&p, &t, body](Executor& e, Heads heads) {
    SerialDevice gpu(p, e, heads);
    gpu.kernel("k", row_blocks(p, t), [&](Machine& sm, Block i) { body(sm, i, p, t); });
  };
}

template <class Visit>
void each_pass(const Visit& visit) {
  for (const Algorithm& a : algorithms())
    for (const bool backward : {false, true}) {
      const Schedule schedule = backward ? a.backward : a.forward;
      if (schedule == nullptr) continue;
      CAPTURE(a.name);
      CAPTURE(backward);
      const Problem p = ragged();
      const Tiling t = tiling_of(a, p);
      visit(a, program_of(schedule, p, t), p, t);
    }
}

}  // namespace

TEST_CASE("units are busy for what traffic counts, whatever runs beside it") {
  each_pass([](const Algorithm&, const Program& program, const Problem& p, const Tiling& t) {
    Request r = whole_head(p);
    const std::vector<KernelTraffic> counted = count_traffic(program, p, t);  // two heads, alike
    for (const int resident : {1, 3}) {
      r.resident.assign(counted.size(), resident);
      const std::vector<KernelTimeline> kernels = timeline::run(program, p, r);
      REQUIRE(kernels.size() == counted.size());
      for (std::size_t k = 0; k < kernels.size(); ++k) {
        const KernelTraffic& c = counted[k];
        CHECK(kernels[k].name == c.name);
        CHECK(kernels[k].grid == c.blocks);
        CHECK(static_cast<std::int64_t>(kernels[k].blocks.size()) == c.blocks);
        const double work[] = {double(c.matmul_flops), double(c.exps), double(c.other_flops - c.exps),
                               double(c.requested_bytes())};
        for (int u = 0; u < timeline::unit_count; ++u)
          CHECK(close(kernels[k].busy[u], work[u] / r.rates.per_clock[u]));
      }
    }
  });
}

TEST_CASE("alone and without asynchronous operations, a thread block takes the sum of its operations") {
  each_pass([](const Algorithm& a, const Program& program, const Problem& p, const Tiling&) {
    const std::vector<KernelTimeline> kernels = timeline::run(program, p, whole_head(p));
    for (const KernelTimeline& k : kernels) {
      CAPTURE(k.name);
      if (a.name == "fa3" && k.has_producer)
        CHECK(k.clocks < 0.9 * k.serial());
      else
        CHECK(close(k.clocks, k.serial()));
    }
  });
}

TEST_CASE("never less than the busiest unit, never more than one operation after another") {
  each_pass([](const Algorithm&, const Program& program, const Problem& p, const Tiling&) {
    for (const Sharing sharing : {Sharing::turns, Sharing::equal})
      for (const int resident : {1, 2, 5}) {
        Request r = whole_head(p);
        r.sharing = sharing;
        r.resident.assign(20, resident);
        for (const KernelTimeline& k : timeline::run(program, p, r)) {
          CHECK(k.clocks >= k.bound() * (1 - 1e-9));
          CHECK(k.clocks <= k.serial() * (1 + 1e-9) + 1e-6);
        }
      }
  });
}

TEST_CASE("events keep to the rules") {
  each_pass([](const Algorithm&, const Program& program, const Problem& p, const Tiling&) {
    Request r = whole_head(p);
    r.resident.assign(20, 2);
    for (const KernelTimeline& k : timeline::run(program, p, r)) {
      std::map<int, double> unit_free;  // a unit does one thing at a time
      std::map<std::tuple<int, int, int>, double>
          warpgroup_at;  // and a warpgroup's work on it keeps its order
      for (const timeline::Event& e : k.events) {
        CHECK(e.begin >= -1e-6);
        CHECK(e.end >= e.begin);
        CHECK(e.end <= k.clocks + 1e-6);
        double& free = unit_free[static_cast<int>(e.unit)];
        CHECK(e.begin >= free - 1e-6);
        free = e.end;
        double& at = warpgroup_at[{e.block, e.role, static_cast<int>(e.unit)}];
        CHECK(e.begin >= at - 1e-6);
        at = e.end;
        CHECK(e.begin >= k.blocks[e.block].begin - 1e-6);
        CHECK(e.end <= k.blocks[e.block].end + 1e-6);
      }
    }
  });
}

TEST_CASE("a ring hides loads behind products, or products behind loads") {
  Problem p;
  p.seqlen_q = 16;
  p.seqlen_k = 16 * 12;
  p.head_dim = 16;
  Tiling t;
  t.block_q = t.block_k = 16;
  constexpr int n = 12;
  const double flops = 2. * 16 * 16 * 16, bytes = 2. * 16 * 16;
  for (const auto& [load, multiply] : {std::pair{100., 70.}, {70., 100.}, {80., 80.}})
    for (const int stages : {1, 2, 3, n})
      for (const double latency : {0., 25.}) {
        CAPTURE(load);
        CAPTURE(multiply);
        CAPTURE(stages);
        CAPTURE(latency);
        const Program program =
            one_block(p, t, [stages](Machine& sm, Block i, const Problem& q, const Tiling& u) {
              Ring ring = sm.ring(Tensor::K, u.block_k, stages);
              sm.producer([&](Machine& tma) {
                for (Block j : col_blocks(q, u)) tma.load(ring, j);
              });
              sm.consumers(1, [&](Machine& wg, int) {
                Tile Qi = wg.zeros(Tensor::Q, i);
                for (int j = 0; j < n; ++j) {
                  Tile Kj = wg.take(ring);
                  wg.matmul_nt(Tensor::S, Qi, Kj);
                }
              });
            });
        Request r = with_rates(flops / multiply, inf, inf, bytes / load);
        r.latency = latency;
        const double clocks = timeline::run(program, p, r)[0].clocks;
        if (stages == 1)
          CHECK(close(clocks, n * (load + latency + multiply)));
        else if (stages == n || latency == 0)
          CHECK(close(clocks, load + latency + (n - 1) * std::max(load, multiply) + multiply));
      }
}

TEST_CASE("ping-pong: in turns two warpgroups change places, at equal shares they stay together") {
  Problem p;
  p.seqlen_q = p.seqlen_k = 32;
  p.head_dim = 16;
  Tiling t;
  t.block_q = 32;
  t.block_k = 32;
  constexpr int n = 9;
  const Program program = one_block(p, t, [](Machine& sm, Block i, const Problem&, const Tiling&) {
    sm.consumers(2, [&](Machine& wg, int w) {
      const Block rows = part_of(i, w, 2);
      Tile Qi = wg.zeros(Tensor::Q, rows), Ki = wg.zeros(Tensor::K, rows), mi = wg.zeros(Tensor::m, rows);
      for (int k = 0; k < n; ++k) {
        Tile Sij = wg.matmul_nt(Tensor::S, Qi, Ki);
        wg.exp(Sij, mi);
      }
    });
  });
  const double flops = 2. * 16 * 16 * 16, exps = 16. * 16;
  for (const auto& [multiply, exp] : {std::pair{50., 50.}, {60., 40.}, {40., 60.}}) {
    Request r = with_rates(flops / multiply, exps / exp, inf, inf);
    const KernelTimeline turns = timeline::run(program, p, r)[0];
    r.sharing = Sharing::equal;
    const KernelTimeline equal = timeline::run(program, p, r)[0];
    CHECK(close(equal.clocks, 2 * n * (multiply + exp)));
    // The longer of the two is never interrupted; the shorter one stands before or after it once.
    CHECK(close(turns.clocks, 2 * n * std::max(multiply, exp) + std::min(multiply, exp)));
  }
}

TEST_CASE("asynchronous products run behind what their warpgroup does until it waits") {
  Problem p;
  p.seqlen_q = p.seqlen_k = 16;
  p.head_dim = 16;
  Tiling t;
  t.block_q = t.block_k = 16;
  const auto body = [](bool waits_first) {
    return [waits_first](Machine& sm, Block i, const Problem&, const Tiling&) {
      Tile Qi = sm.zeros(Tensor::Q, i), Ki = sm.zeros(Tensor::K, i), mi = sm.zeros(Tensor::m, i);
      Tile old = sm.matmul_nt(Tensor::S, Qi, Ki);
      Tile next = sm.matmul_nt_async(Tensor::S, Qi, Ki);
      if (waits_first) sm.wait(next);
      sm.exp(old, mi);
      sm.wait(next);
    };
  };
  const Request r = with_rates(2. * 16 * 16 * 16 / 100, 16. * 16 / 30, inf, inf);
  CHECK(close(timeline::run(one_block(p, t, body(false)), p, r)[0].clocks, 200));
  CHECK(close(timeline::run(one_block(p, t, body(true)), p, r)[0].clocks, 230));
}

TEST_CASE("FlashAttention-3: every idea of it shows") {
  Problem p;
  p.seqlen_q = p.seqlen_k = 2048;
  p.head_dim = 128;
  const Algorithm& fa3 = *find_algorithm("fa3");
  const auto share = [&](const Algorithm& a, const Tiling& t, Sharing sharing) {
    Request r;
    r.rates = timeline::sm_rates(*find_gpu("h100"), p.dtype);
    r.sharing = sharing;
    return timeline::run(program_of(a.forward, p, t), p, r)[0].share(Unit::tensor_cores);
  };
  Tiling t = fa3.tiling(p);
  const double best = share(fa3, t, Sharing::turns);
  CHECK(best > 0.85);
  CHECK(best <= 1);
  t.stages = 1;
  CHECK(share(fa3, t, Sharing::turns) < best - 0.01);  // the producer cannot run ahead
  t = fa3.tiling(p);
  t.block_q = 64;
  t.warps = 4;
  CHECK(share(fa3, t, Sharing::turns) < best - 0.05);  // one consumer: its softmax is only half hidden
  t = fa3.tiling(p);
  Tiling same = t;
  same.stages = 1;
  CHECK(share(*find_algorithm("fa2"), same, Sharing::turns) <
        best - 0.2);  // loads, products and softmax in turn
}

TEST_CASE("thread blocks: which the SM gets, and one after another") {
  Problem p = ragged();
  p.batch = 2;
  p.causal = false;
  const Algorithm& a = *find_algorithm("fa2");
  const Tiling t = tiling_of(a, p);  // three row blocks a head, two heads, two batch entries
  Request r = whole_head(p);
  r.sm_count = 5;
  const KernelTimeline k = timeline::run(program_of(a.forward, p, t), p, r)[0];
  CHECK(k.grid == 12);
  REQUIRE(k.blocks.size() == 3);
  const int indices[] = {0, 5, 10}, rows[] = {0, 2, 1};
  for (int b = 0; b < 3; ++b) {
    CHECK(k.blocks[b].index == indices[b]);
    CHECK(k.blocks[b].row == rows[b]);
    CHECK(k.blocks[b].begin == doctest::Approx(b == 0 ? 0 : k.blocks[b - 1].end));
  }
  r.most_blocks = 0;  // as many as are resident
  CHECK(timeline::run(program_of(a.forward, p, t), p, r)[0].blocks.size() == 1);
  r.resident = {2};
  CHECK(timeline::run(program_of(a.forward, p, t), p, r)[0].blocks.size() == 2);
}

TEST_CASE("what cannot go on is said") {
  Problem p;
  p.seqlen_q = p.seqlen_k = 32;
  p.head_dim = 16;
  Tiling t;
  t.block_q = t.block_k = 16;
  const auto message_of = [&](auto body) -> std::string {
    try {
      timeline::run(one_block(p, t, body), p, with_rates(1, 1, 1, 1));
    } catch (const ScheduleError& e) {
      return e.what();
    }
    return {};
  };
  const std::string deadlock = message_of([](Machine& sm, Block, const Problem& q, const Tiling& u) {
    Ring ring = sm.ring(Tensor::K, u.block_k, 1);
    sm.producer([&](Machine& tma) {
      for (Block j : col_blocks(q, u)) tma.load(ring, j);
    });
    sm.consumers(1, [&](Machine& wg, int) {
      Tile first = wg.take(ring);
      Tile second = wg.take(ring);
    });
  });
  CHECK(deadlock.find("deadlock") != std::string::npos);
  CHECK(deadlock.find("producer for a free stage of K, warpgroup 1 for K") != std::string::npos);
  const std::string hazard = message_of([](Machine& sm, Block i, const Problem&, const Tiling&) {
    Tile Qi = sm.load(Tensor::Q, i), Ki = sm.load(Tensor::K, i);
    Tile Sij = sm.matmul_nt_async(Tensor::S, Qi, Ki);
    sm.row_max(Sij);
  });
  CHECK(hazard.find("wait for it first") != std::string::npos);
}

TEST_CASE("rates are the data sheet's, divided by SMs and clock") {
  const Gpu& gpu = *find_gpu("h100");
  const timeline::SmRates r = timeline::sm_rates(gpu, Dtype::fp16);
  CHECK(r.of(Unit::tensor_cores) == doctest::Approx(4096).epsilon(0.001));  // FLOPs a clock, white paper
  CHECK(r.of(Unit::exponentials) == 16);
  CHECK(timeline::sm_rates(gpu, Dtype::e4m3).of(Unit::tensor_cores) == doctest::Approx(8192).epsilon(0.001));
  CHECK(timeline::sm_rates(*find_gpu("a100-80"), Dtype::fp16).of(Unit::tensor_cores) ==
        doctest::Approx(2048).epsilon(0.01));
  CHECK(timeline::sm_rates(*find_gpu("a100-80"), Dtype::e4m3).of(Unit::tensor_cores) == 0);
  const double all = r.of(Unit::copies) * gpu.clock_hz * gpu.sm_count;
  CHECK(all == doctest::Approx(gpu.l2_bytes_per_s));
  CHECK(timeline::sm_rates(gpu, Dtype::fp16, timeline::Source::hbm).of(Unit::copies) * gpu.clock_hz *
            gpu.sm_count ==
        doctest::Approx(gpu.hbm_bytes_per_s));
}

// The L2 model against closed forms and invariants.
#include "simulator/executors/l2/l2.h"
#include "simulator/executors/l2/cache.h"
#include "simulator/executors/l2/recording.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "simulator/machine/device.h"

using namespace flashsim;

namespace {

Problem problem(int batch, int heads, int n, int d, bool causal = false) {
  Problem p;
  p.batch = batch;
  p.heads_q = p.heads_kv = heads;
  p.seqlen_q = p.seqlen_k = n;
  p.head_dim = d;
  p.causal = causal;
  return p;
}
double bytes(Tensor x, const Problem& p, const Tiling& t) {
  return static_cast<double>(std::int64_t{p.batch} * heads_of(x, p) * rows_of(x, p, t) * cols_of(x, p) *
                             bytes_in_hbm(x, p));
}
const L2Traffic& of(const L2Result& r, Tensor x) { return r.tensors[static_cast<int>(x)]; }

/// Counts requested bytes the plain way: elements, of n x n matrices with what pads their rows to sectors.
class Requested final : public Executor {
 public:
  explicit Requested(const Problem& p) : p_(p) {}
  void execute(const Operation& op) override {
    const auto bytes = [&](const TileRef& tile) {
      const std::int64_t row = std::int64_t{tile.cols} * bytes_in_hbm(op.tensor, p_);
      return static_cast<double>(tile.rows * (is_score_shaped(op.tensor) ? (row + 31) / 32 * 32 : row));
    };
    if (op.kind == Op::load)
      (op.tensor == Tensor::dQ_sum ? sums_read : others_read) += bytes(*op.out);
    else if (op.kind == Op::store || op.kind == Op::reduce_add || op.kind == Op::reduce_max)
      written += bytes(*op.a);
  }
  double read() const { return sums_read + others_read; }
  double sums_read = 0, others_read = 0, written = 0;

 private:
  const Problem& p_;
};

L2Options with_l2(std::int64_t l2_bytes) {
  L2Options o;
  o.l2_bytes = l2_bytes;
  return o;
}

}  // namespace

TEST_CASE("where everything fits, DRAM bytes are the compulsory ones, exactly") {
  using enum Tensor;
  for (const int n : {128, 512, 1000}) {
    const Problem p = problem(2, 4, n, 64);
    const Tiling t;
    CAPTURE(n);
    const L2Result forward = simulate_l2(fa2_forward, p, t);
    for (Tensor x : {Q, K, V})
      CHECK(of(forward, x).dram_read == doctest::Approx(bytes(x, p, t)).epsilon(1e-9));
    for (Tensor x : {O, LSE})
      CHECK(of(forward, x).dram_written + of(forward, x).left_dirty ==
            doctest::Approx(bytes(x, p, t)).epsilon(1e-9));
    CHECK(forward.total().dram_read == doctest::Approx(3 * bytes(Q, p, t)).epsilon(1e-9));

    // Backward: what a kernel of the pass wrote, the next finds in L2.
    const L2Result backward = simulate_l2(fa2_backward, p, t);
    for (Tensor x : {Q, K, V, O, dO, LSE})
      CHECK(of(backward, x).dram_read == doctest::Approx(bytes(x, p, t)).epsilon(1e-9));
    for (Tensor x : {D, dQ_sum}) CHECK(of(backward, x).dram_read == 0);
    for (Tensor x : {dQ, dK, dV})
      CHECK(of(backward, x).dram_written + of(backward, x).left_dirty ==
            doctest::Approx(bytes(x, p, t)).epsilon(1e-9));
    CHECK(backward.kernels.size() == 3);
  }
}

TEST_CASE("without a cache, DRAM bytes are those of the schedule's elements, of every algorithm") {
  for (const Algorithm& a : algorithms())
    for (const auto& shape : {std::pair(300, false), {300, true}, {512, false}, {512, true}}) {
      const int n = shape.first;
      const bool causal = shape.second;
      Problem p = problem(1, 4, n, 64, causal);
      p.heads_kv = 2;
      CAPTURE(a.name);
      CAPTURE(n);
      CAPTURE(causal);
      const Tiling t = a.tiling(p);
      for (const Schedule schedule : {a.forward, a.backward}) {
        if (schedule == nullptr) continue;
        const L2Result r = simulate_l2(schedule, p, t, with_l2(0));
        Requested counted(p);
        SerialDevice serial(p, counted);
        schedule(serial, p, t);
        const L2Traffic total = r.total();
        if (n % 128 == 0) {  // whole tiles, whole sectors
          CHECK(total.requested_read == counted.read());
          CHECK(total.requested_written == counted.written);
        } else {
          CHECK(total.requested_read >= counted.read());
          CHECK(total.requested_written >= counted.written);
        }
        // A reduction also reads what it adds to.
        CHECK(of(r, Tensor::dQ_sum).dram_read >= counted.sums_read);
        CHECK(total.dram_read - of(r, Tensor::dQ_sum).dram_read ==
              doctest::Approx(counted.others_read).epsilon(1e-9));
        CHECK(total.dram_written == doctest::Approx(counted.written).epsilon(1e-9));
        CHECK(total.left_dirty == 0);
      }
    }
}

TEST_CASE("FlashAttention-2 requests (2 + 2 T_r) n d e + 4 n bytes a head") {
  const Problem p = problem(1, 2, 1024, 128);
  Tiling t;
  t.block_q = 128;
  const L2Traffic total = simulate_l2(fa2_forward, p, t).total();
  const double u = 1024.0 * 128 * 2;
  CHECK(total.requested_read == 2 * (1 + 2 * 8) * u);
  CHECK(total.requested_written == 2 * (u + 4 * 1024));
}

TEST_CASE("rows of S and P of any length are whole sectors") {
  using enum Tensor;
  for (const int n : {505, 478, 130, 512}) {
    CAPTURE(n);
    const Problem p = problem(2, 4, n, 64);
    const Tiling t = find_algorithm("standard")->tiling(p);
    const double blocks = std::ceil(static_cast<double>(n) / t.block_q), u = 8.0 * n * 64 * 2;
    const int padded = (n + 15) / 16 * 16;
    const double w = 8.0 * n * padded * 2;  // with what pads the rows
    REQUIRE(t.block_q == t.block_k);
    const L2Result forward = simulate_l2(standard_forward, p, t);
    CHECK(forward.total().requested_read == 2 * w + 3 * blocks * u);
    CHECK(forward.total().requested_written == 2 * w + u);
    CHECK(of(forward, S).dram_read == 0);  // they fit in L2
    CHECK(of(forward, P).dram_written + of(forward, P).left_dirty == doctest::Approx(w).epsilon(1e-9));
    const L2Result backward = simulate_l2(standard_backward, p, t);
    CHECK(backward.total().requested_read == 5 * w + 5 * blocks * u);
    CHECK(backward.total().requested_written == 2 * w + 3 * u);
    CHECK(of(backward, P).dram_read == doctest::Approx(w).epsilon(1e-9));
  }
}

TEST_CASE("FlashAttention-3 loads a tile once for all its consumers") {
  const Problem p = problem(1, 2, 1024, 128);
  const Algorithm& fa3 = *find_algorithm("fa3");
  const L2Result r = simulate_l2(fa3.forward, p, fa3.tiling(p));
  CHECK(of(r, Tensor::K).requested_read == 8 * bytes(Tensor::K, p, {}));
  CHECK(of(r, Tensor::K).dram_read == doctest::Approx(bytes(Tensor::K, p, {})).epsilon(1e-9));
  CHECK(of(r, Tensor::Q).dram_read == doctest::Approx(bytes(Tensor::Q, p, {})).epsilon(1e-9));
}

TEST_CASE("any forward pass: compulsory <= DRAM reads <= requested reads, and so for writes") {
  CHECK(rc::check("invariants", [] {
    const std::vector<Algorithm>& all = algorithms();
    const Algorithm& a = all[*rc::gen::inRange<std::size_t>(0, all.size())];
    Problem p = problem(*rc::gen::inRange(1, 3), 1, *rc::gen::inRange(1, 700), *rc::gen::element(32, 64, 128),
                        *rc::gen::arbitrary<bool>());
    p.heads_kv = *rc::gen::inRange(1, 3);
    p.heads_q = p.heads_kv * *rc::gen::inRange(1, 3);
    p.seqlen_k = *rc::gen::inRange(1, 700);
    Tiling t = a.tiling(p);
    L2Options options = with_l2(std::int64_t{*rc::gen::inRange(0, 64)} << 16);
    options.seed = *rc::gen::arbitrary<std::uint64_t>();
    options.sample_bytes = 256;
    const L2Result r = simulate_l2(a.forward, p, t, options);
    for (int x = 0; x < tensor_count; ++x) {
      const L2Traffic& traffic = r.tensors[x];
      RC_ASSERT(traffic.dram_read >= 0);
      RC_ASSERT(traffic.dram_read <= traffic.requested_read * (1 + 1e-9));
      RC_ASSERT(traffic.dram_written + traffic.left_dirty <= traffic.requested_written * (1 + 1e-9));
    }
    // Each head is cut into pieces of about sample_bytes, and a random byte of each stands for it: at a
    // head's end a piece may count for less than it holds.
    const auto unseen = [&](Tensor x) {
      return static_cast<double>(options.sample_bytes * p.batch * heads_of(x, p));
    };
    for (Tensor x : {Tensor::O}) {
      const L2Traffic& traffic = of(r, x);
      if (traffic.requested_read == 0)  // every row of the output is written at least once
        RC_ASSERT(traffic.dram_written + traffic.left_dirty >= bytes(x, p, t) - unseen(x));
    }
    if (!p.causal)  // every row of the inputs is read by somebody, for the first time
      for (Tensor x : {Tensor::Q, Tensor::K, Tensor::V})
        RC_ASSERT(of(r, x).dram_read >= bytes(x, p, t) - unseen(x));
  }));
}

// Two kernels of a pass: the second one changes a few rows only, in other shares of its sampled lines.
TEST_CASE("what one kernel wrote counts in full where another one changes a part of it") {
  Problem p = problem(1, 1, 265, 64, true);
  p.seqlen_k = 1;  // the last row alone has a key to see
  for (const Algorithm& a : algorithms()) {
    CAPTURE(a.name);
    L2Options options = with_l2(1 << 16);
    options.sample_bytes = 256;
    const Tiling t = a.tiling(p);
    const L2Traffic o = of(simulate_l2(a.forward, p, t, options), Tensor::O);
    CHECK(o.dram_written + o.left_dirty >= bytes(Tensor::O, p, t) - 256);
    CHECK(o.dram_written + o.left_dirty <= o.requested_written * (1 + 1e-9));
  }
}

TEST_CASE("a larger cache never reads more") {
  const Problem p = problem(1, 8, 4096, 64);
  Tiling t;
  double before = infinity;
  for (const std::int64_t kib : {0, 64, 256, 1024, 4096, 16384, 65536}) {
    const double read = simulate_l2(fa1_forward, p, t, with_l2(kib * 1024)).total().dram_read;
    CAPTURE(kib);
    CHECK(read <= before * 1.01);  // which lines are evicted is drawn at random
    before = read;
  }
  CHECK(before < simulate_l2(fa1_forward, p, t, with_l2(0)).total().dram_read / 3);
}

TEST_CASE("the same seed gives the same bytes; several give a range around the median") {
  const Problem p = problem(1, 4, 4096, 128, true);
  const Tiling t;
  const L2Options options = with_l2(1 << 20);
  const double first = simulate_l2(fa2_forward, p, t, options).total().dram();
  CHECK(first == simulate_l2(fa2_forward, p, t, options).total().dram());
  const L2Range range = simulate_l2_range(fa2_forward, p, t, options, 5);
  CHECK(range.least <= first);
  CHECK(first <= range.most);
  CHECK(range.least < range.most);
  CHECK(range.least <= range.median.total().dram());
  CHECK(range.median.total().dram() <= range.most);
}

TEST_CASE("only a GPU with two partitions has traffic between them") {
  const Problem p = problem(1, 8, 1024, 128);
  L2Options options;
  options.gpu = find_gpu("rtx4090");
  CHECK(simulate_l2(fa2_forward, p, {}, options).fabric_bytes == 0);
  options.gpu = find_gpu("h200");
  const L2Result r = simulate_l2(fa2_forward, p, {}, options);
  // Every line read by both sides crosses once; of the lines written, half.
  CHECK(r.fabric_bytes > 0.8 * bytes(Tensor::K, p, {}));
  CHECK(r.fabric_bytes < r.total().requested_read / 2);
}

TEST_CASE("what was dirty before is written back when room is needed") {
  const Problem p = problem(1, 16, 4096, 128);  // 64 MiB, more than L2 holds
  L2Options options;
  options.dirty_bytes_before = 20'000'000;
  const L2Traffic other = simulate_l2(fa2_forward, p, {}, options).other;
  CHECK(other.dram_written + other.left_dirty == doctest::Approx(20e6).epsilon(0.001));
  CHECK(other.dram_written > 10e6);
}

/// One set of 16 ways.
l2::Cache one_set() {
  return {static_cast<std::int64_t>(1024 * l2::Cache::ways / l2::Cache::default_usable) + 1024, 1, 1024, 1};
}

TEST_CASE(
    "of a set's lines so many stay dirty; one more, and the next access cleans the one used longest ago") {
  l2::Cache cache = one_set();
  REQUIRE(cache.sets_per_partition() == 1);
  constexpr int most = l2::Cache::most_dirty;
  const std::uint32_t first = cache.add_lines(l2::Cache::ways, 0);
  for (std::uint32_t k = 0; k < most; ++k) cache.write(first + k, 0, 0);
  CHECK(cache.cleaned(0) == 0);
  CHECK(cache.dirty(0) == most);
  cache.write(first, 0, 0);  // dirty already; now line 1 is the oldest
  cache.write(first + most, 0, 0);
  CHECK(cache.cleaned(0) == 0);
  CHECK(cache.dirty(0) == most + 1);                      // until the next access
  CHECK(cache.read(first + 2, 0, 0) == l2::Found::near);  // a read will do
  CHECK(cache.cleaned(0) == 1);
  CHECK(cache.dirty(0) == most);
  CHECK(cache.read(first + 1, 0, 0) == l2::Found::near);  // cleaned, and still there
  cache.write(first + 1, 0, 0);                           // dirty once more
  cache.read(first, 0, 0);
  CHECK(cache.cleaned(0) == 2);
  CHECK(cache.dirty(0) == most);
}

TEST_CASE("accumulators that wait in memory go there by sectors, everything else by lines") {
  using enum Tensor;
  const Problem p = problem(1, 2, 512, 128);
  // Touches of a tensor by sectors, of all; read or written.
  const auto by_sectors = [&](Schedule schedule, Tiling t, Tensor x, l2::Access access) {
    l2::Cache cache(1 << 20, 2, 512, 1);
    l2::AddressMap map(p, t, 512, false, cache);
    l2::Recorder recorder(p, t, map);
    SerialDevice device(p, recorder);
    schedule(device, p, t);
    std::pair<int, int> found{0, 0};
    for (const l2::Touch& touch : recorder.finish().touches)
      if (map.areas()[touch.area].tensor == x && static_cast<l2::Access>(touch.access) == access)
        found.first += static_cast<int>(touch.by_sectors), ++found.second;
    return found;
  };
  const auto all = [](std::pair<int, int> found) { return found.second > 0 && found.first == found.second; };
  const auto none = [](std::pair<int, int> found) { return found.second > 0 && found.first == 0; };
  using l2::Access;
  const Tiling wide{.block_q = 64, .block_k = 128};
  for (const auto& [schedule, waits, result] :
       {std::tuple{Schedule{fa1_forward}, O_sum, O}, std::tuple{Schedule{fa1_backward}, dQ_sum, dQ}}) {
    CHECK(all(by_sectors(schedule, wide, waits, Access::read)));
    CHECK(all(by_sectors(schedule, wide, result, Access::write)));
    // Zeros come by lines, at the start: 2 heads x 512 rows x 512 bytes in pieces of 512, of five visits
    // (zeros, 4).
    const auto [sectors, writes] = by_sectors(schedule, wide, waits, Access::write);
    CHECK(writes == 1024 + 3 * 1024);
    CHECK(sectors == 3 * 1024);
    for (Tensor x : {Q, K, V}) CHECK(none(by_sectors(schedule, wide, x, Access::read)));
  }
  CHECK(none(by_sectors(fa1_backward, wide, dK, Access::write)));
  Tiling narrow = wide;
  narrow.temporaries = p.dtype;
  CHECK(all(by_sectors(fa1_forward, narrow, O, Access::read)));
  for (Tensor x : {Q, dO}) CHECK(none(by_sectors(fa2_backward, wide, x, Access::read)));
  CHECK(none(by_sectors(fa2_backward, wide, dQ_sum, Access::reduce)));
  CHECK(none(by_sectors(fa2_forward, wide, O, Access::write)));
  CHECK(none(by_sectors(standard_backward, wide, dQ, Access::write)));
}

TEST_CASE("a write from the other side leaves a copy there, a reduction does not") {
  l2::Cache cache(1 << 20, 2, 1024, 1);
  const std::uint32_t first = cache.add_lines(2, 0);  // of a pair, one has its home on each side
  for (const std::uint32_t line : {first, first + 1}) cache.write(line, 0, 0);
  CHECK(cache.fabric_lines() == 1);
  for (const std::uint32_t line : {first, first + 1}) CHECK(cache.read(line, 0, 0) == l2::Found::near);
  for (const std::uint32_t line : {first, first + 1})  // the same lines' other sectors move no line more
    for (const bool written : {true, false}) cache.again(line, 0, written, 3);
  CHECK(cache.fabric_lines() == 1);
  CHECK(cache.dirty(0) == 2);
  CHECK(cache.cleaned(0) == 0);
  for (const std::uint32_t line : {first, first + 1}) cache.reduce(line, 0, 0);
  CHECK(cache.fabric_lines() == 2);
  int far = 0;
  for (const std::uint32_t line : {first, first + 1}) far += cache.read(line, 0, 0) == l2::Found::far;
  CHECK(far == 1);
  CHECK(cache.fabric_lines() == 3);
}

// fa3's dealing out of tiles (gpu_kernels/fa3/schedule.cuh) on the CPU: the kernel's own source, a thread for
// every thread block, and atomics that are interrupted at every turn.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define __host__
#define __device__
#define __forceinline__ inline

namespace flashsim::gpu {
using std::max;
using std::min;

/// Other threads may come between any two atomic operations, and do.
inline void interrupt() {
  thread_local std::minstd_rand random(
      static_cast<unsigned>(std::hash<std::thread::id>{}(std::this_thread::get_id())));
  if (random() % 4 == 0) std::this_thread::yield();
}
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long x) {
  interrupt();
  return std::atomic_ref(*p).fetch_add(x);
}
inline unsigned long long atomicCAS(unsigned long long* p, unsigned long long expected,
                                    unsigned long long x) {
  interrupt();
  std::atomic_ref(*p).compare_exchange_strong(expected, x);
  return expected;
}
inline unsigned long long atomicExch(unsigned long long* p, unsigned long long x) {
  interrupt();
  return std::atomic_ref(*p).exchange(x);
}
}  // namespace flashsim::gpu

#include "gpu_kernels/fa3/schedule.cuh"
#include "simulator/machine/blocks.h"

using namespace flashsim;
using namespace flashsim::gpu;
using namespace flashsim::gpu::fa3;

namespace {

/// What `blocks` thread blocks work on that start with a tile each and claim the others.
std::vector<int> dealt_out(unsigned long long* counter, int blocks, int tiles) {
  std::vector<std::vector<int>> mine(static_cast<std::size_t>(blocks));
  std::vector<std::thread> threads;
  for (int b = 0; b < blocks; ++b)
    threads.emplace_back([&, b] {
      for (int t = b; t < tiles; t = blocks + claim_tile(counter, tiles))
        mine[static_cast<std::size_t>(b)].push_back(t);
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<int> all;
  for (const std::vector<int>& some : mine) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  return all;
}

template <bool Masked, bool Fp8 = false>
struct Compiled {
  static constexpr bool masked = Masked, fp8 = Fp8, two_level = Fp8;
  static constexpr int block_q = 128, block_k = 64;
};

Tiling tiling(BlockOrder order, int heads_together = 1) {
  Tiling t;
  t.block_q = 128, t.block_k = 64;
  t.order = order, t.heads_together = heads_together;
  return t;
}

ForwardParams params(const Problem& p, const Tiling& t) {
  ForwardParams f{};
  static_cast<Shape&>(f) = shape_of(p);
  f.heads = p.batch * p.heads_q, f.q_tiles = ceil_div(p.seqlen_q, 128), f.tiles = f.q_tiles * f.heads;
  f.section = t.heads_together;
  f.first_tile = t.order == BlockOrder::last_to_first ? f.q_tiles - 1 : 0;
  return f;
}

template <bool Masked>
void check_tiles(const Problem& p, const Tiling& t) {
  CAPTURE(describe(p));
  CAPTURE(describe(t));
  const ForwardParams f = params(p, t);
  const Blocks simulated = row_blocks(p, t);  // of all query heads that share a K/V head
  std::vector<std::pair<int, int>> seen;
  for (int n = 0; n < f.tiles; ++n) {
    const Tile tile = tile_of<Compiled<Masked>>(f, n);
    seen.emplace_back(tile.head, tile.q);
    // As the L2 model takes them.
    const Turn<int> turn = turn_of(n, f.heads, t.heads_together, f.q_tiles);
    CHECK(tile.head == turn.head);
    CHECK(tile.q == simulated[tile.head % p.group() * f.q_tiles + turn.block].index);
    // e4m3 has the order that is the kernel's own.
    if (t.order == (Masked ? BlockOrder::last_to_first : BlockOrder::first_to_last)) {
      const Tile fp8 = tile_of<Compiled<Masked, true>>(f, n);
      CHECK(fp8.head == tile.head);
      CHECK(fp8.q == tile.q);
    }
    CHECK(tile.kv_head == tile.head / p.group());
    const int first = tile.q * 128, last = std::min(first + 128, p.seqlen_q) - 1;
    CHECK(tile.begin < tile.end);
    for (int k = 0; k < ceil_div(p.seqlen_k, 64); ++k) {
      const int k0 = k * 64, k1 = std::min(k0 + 64, p.seqlen_k);
      bool any = false, all = k1 - k0 == 64;
      for (int q = first; q <= last; ++q) {
        const int low = std::max(k0, f.first_key(q)), high = std::min(k1, f.end_key(q));
        any = any || low < high;
        all = all && low == k0 && high == k1;
      }
      CAPTURE(k0);
      if (any) CHECK((tile.begin <= k && k < tile.end));
      const bool clean = tile.clean_begin <= k && k < tile.clean_end;
      if (clean) CHECK(all);             // where the mask is not applied, it does nothing
      if (all && !Masked) CHECK(clean);  // and the other way round, but for the last block that all rows see
    }
    CHECK(tile.clean_begin >= tile.begin);
    CHECK(tile.clean_end >= tile.begin);
    CHECK(tile.clean_end <= tile.end);
  }
  std::sort(seen.begin(), seen.end());
  std::vector<std::pair<int, int>> want;
  for (int head = 0; head < f.heads; ++head)
    for (int q = 0; q < f.q_tiles; ++q) want.emplace_back(head, q);
  CHECK(seen == want);
}

/// e4m3 keeps the last tiles of every head for the end (Tiling::late_blocks), in the order in which the L2
/// model takes them, and deals out each tile once all the same.
void check_late_tiles(const Problem& p, Tiling t, int late) {
  t.late_blocks = late;
  CAPTURE(describe(p));
  CAPTURE(describe(t));
  ForwardParams f = params(p, t);
  f.late = late;
  const Blocks simulated = row_blocks(p, t);
  CHECK(simulated.late == late);
  std::set<std::pair<int, int>> seen;
  for (int n = 0; n < f.tiles; ++n) {
    const Tile tile = tile_of<Compiled<true, true>>(f, n);
    CHECK((tile.head >= 0 && tile.head < f.heads && tile.q >= 0 && tile.q < f.q_tiles));
    seen.emplace(tile.head, tile.q);
    const Turn<int> turn = turn_of(n, f.heads, t.heads_together, f.q_tiles, simulated.late);
    CHECK(tile.head == turn.head);
    CHECK(tile.q == simulated[tile.head % p.group() * f.q_tiles + turn.block].index);
    CHECK((tile.q < late) == (n >= f.heads * (f.q_tiles - late)));
  }
  CHECK(static_cast<int>(seen.size()) == f.tiles);
}

}  // namespace

TEST_CASE("every tile is dealt out once, whatever the counter's memory held, and again at the next launch") {
  constexpr unsigned long long mark = kNoneClaimed >> 32, low = 0xffffffffull;
  for (const unsigned long long found :
       {kNoneClaimed, 0ull, ~0ull, (mark - 1) << 32 | low, (mark - 1) << 32 | (low - 3), (mark + 1) << 32,
        77ull, mark, mark << 31})
    for (const int blocks : {1, 3, 16})
      for (const int tiles : {blocks, blocks + 1, 500}) {
        CAPTURE(found);
        CAPTURE(blocks);
        CAPTURE(tiles);
        unsigned long long counter = found;
        std::vector<int> want(static_cast<std::size_t>(tiles));
        for (int i = 0; i < tiles; ++i) want[static_cast<std::size_t>(i)] = i;
        for (int launch = 0; launch < 3; ++launch) {
          CHECK(dealt_out(&counter, blocks, tiles) == want);
          CHECK(counter == kNoneClaimed);
        }
      }
}

TEST_CASE(
    "in every order tiles cover all queries of all heads once, their blocks of keys all that their rows "
    "see") {
  for (const auto& [q, k] : {std::pair{1, 1}, {128, 64}, {300, 300}, {300, 777}, {777, 300}, {129, 640}}) {
    Problem p;
    p.batch = 2, p.heads_q = 6, p.heads_kv = 3, p.head_dim = 64, p.seqlen_q = q, p.seqlen_k = k;
    check_tiles<false>(p, tiling(BlockOrder::first_to_last));
    for (const BlockOrder order : {BlockOrder::first_to_last, BlockOrder::last_to_first})
      for (const int together : {1, 4, 5, 12}) {
        Problem causal = p;
        causal.causal = true;
        check_tiles<true>(causal, tiling(order, together));
        for (int late = 0; late <= ceil_div(q, 128); ++late)
          check_late_tiles(causal, tiling(BlockOrder::last_to_first, together), late);
        causal.window_left = 100;
        check_tiles<true>(causal, tiling(order, together));
        Problem window = p;
        window.window_left = 70, window.window_right = 90;
        check_tiles<true>(window, tiling(order, together));
      }
  }
}

// In which order the thread blocks of fa2's forward pass start: turn_of, which the kernel and the L2 model
// share, and how many heads take turns.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "cpu_reference/turns.h"
#include "gpu_kernels/fa2/tilings.h"

using namespace flashsim;
using namespace flashsim::gpu::fa2;

namespace {

Problem causal(int batch, int heads_q, int heads_kv, int n, int head_dim) {
  Problem p;
  p.batch = batch, p.heads_q = heads_q, p.heads_kv = heads_kv;
  p.seqlen_q = p.seqlen_k = n, p.head_dim = head_dim;
  p.causal = true;
  return p;
}

/// When the last thread block ends, over the mean of all places, where each starts on the place that is free
/// first and takes as many units of time as it sees tiles, and `start` more for its first tiles to arrive.
double last_over_mean(const Problem& p, const Tiling& t, int places, double start) {
  const int heads = p.batch * p.heads_q, row_blocks = (p.seqlen_q + t.block_q - 1) / t.block_q;
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at(
      {}, std::vector<double>(static_cast<std::size_t>(places), 0.0));
  double last = 0, sum = 0;
  for (int n = 0; n < heads * row_blocks; ++n) {
    const auto [head, block] = turn_of(n, heads, t.heads_together, row_blocks);
    const int row_block = t.order == BlockOrder::last_to_first ? row_blocks - 1 - block : block;
    const int end = p.end_key(std::min((row_block + 1) * t.block_q, p.seqlen_q) - 1);
    const double time = start + (end + t.block_k - 1) / t.block_k, begin = free_at.top();
    free_at.pop();
    free_at.push(begin + time);
    last = std::max(last, begin + time), sum += time;
  }
  return last / (sum / places);
}

}  // namespace

TEST_CASE("every row block of every head has its turn once, longest first in each section of heads") {
  rc::check([] {
    const int heads = *rc::gen::inRange(1, 40), together = *rc::gen::inRange(1, heads + 1),
              blocks = *rc::gen::inRange(1, 12);
    std::set<std::pair<int, int>> seen;
    int section = 0, last_block = 0;
    for (int n = 0; n < heads * blocks; ++n) {
      const auto [head, block] = turn_of(n, heads, together, blocks);
      RC_ASSERT(head >= 0 && head < heads && block >= 0 && block < blocks);
      RC_ASSERT(seen.emplace(head, block).second);
      if (head / together != section) section = head / together, last_block = 0;
      RC_ASSERT(head / together == section);
      RC_ASSERT(block >= last_block);
      last_block = block;
      if (together == 1) RC_ASSERT((head == n / blocks && block == n % blocks));
    }
  });
}

TEST_CASE("heads that take turns: K and V fit, whole groups, and the last ones are not few") {
  rc::check([] {
    const int group = *rc::gen::inRange(1, 5);
    const int heads_kv = *rc::gen::inRange(1, 60);
    const Problem p =
        causal(*rc::gen::inRange(1, 5), heads_kv * group, heads_kv,
               *rc::gen::element(100, 512, 4096, 16384, 100000), *rc::gen::element(64, 128, 256));
    const int together = heads_together(p), all = p.batch * p.heads_q,
              least = heads_within(p, resident_bytes);
    RC_ASSERT(together % group == 0);
    RC_ASSERT(together >= least);
    RC_ASSERT(together < 2 * least);
    RC_ASSERT(together <= all);
    const auto last = [all](int each) { return (all - 1) % each + 1; };
    for (int each = least; each < std::min(2 * least, all + 1); each += group)
      RC_ASSERT(last(together) * each >= last(each) * together);
    RC_ASSERT(forward_tiling(p).heads_together == together);
    Problem dense = p;
    dense.causal = false;
    RC_ASSERT(forward_tiling(dense).heads_together == 1);
  });
}

TEST_CASE("one head after another, the last head's long row blocks end alone; in turn they do not") {
  // 132 SMs with two thread blocks each; the first tiles take about as long to arrive as two are worked on.
  for (const Problem& p :
       {causal(4, 16, 16, 4096, 128), causal(2, 16, 16, 8192, 128), causal(8, 8, 8, 2048, 256),
        causal(17, 1, 1, 8192, 128), causal(1, 9, 9, 16384, 128)}) {
    CAPTURE(describe(p));
    Tiling t = forward_tiling(p);
    const double in_turn = last_over_mean(p, t, 264, 2);
    t.heads_together = 1;
    const double one_by_one = last_over_mean(p, t, 264, 2);
    MESSAGE("last end over mean: " << one_by_one << " one head after another, " << in_turn << " in turn");
    CHECK(one_by_one > 1.1);
    CHECK(in_turn - 1 < (one_by_one - 1) / 2);
  }
}

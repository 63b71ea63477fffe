// Exercise 5: ragged tails. Read 05_ragged_tails.md first.
#include <vector>

#include "lessons/exercises/given/steps.h"
#include "lessons/exercises/given/without_blocks.h"

/// n rows cut into blocks of `size` rows: every row in exactly one block, in order.
std::vector<Block> cut(int n, int size) {
  std::vector<Block> all;
  // TODO: where size does not divide n, this leaves the last rows out.
  for (int index = 0; index < n / size; ++index) all.push_back({index, index * size, size});
  return all;
}

void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  const std::vector<Block> rows = cut(p.seqlen_q, t.block_q), cols = cut(p.seqlen_k, t.block_k);
  const auto grid = Blocks{static_cast<int>(rows.size()), 1, 0, static_cast<int>(rows.size())};
  gpu.kernel("forward", grid, [&](Machine& sm, Block number) {
    const Block i = rows[static_cast<std::size_t>(number.index)];
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : cols) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      given::online_softmax_step(sm, Oi, li, mi, Sij, Vj);
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

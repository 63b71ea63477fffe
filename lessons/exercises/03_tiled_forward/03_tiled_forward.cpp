// Exercise 3: tiled forward. Read 03_tiled_forward.md first.
#include "lessons/exercises/given/schedule.h"

// One thread block a block of rows i. Qi stays on chip; K and V come by in tiles j.
void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);  // (B_r, d)
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : col_blocks(p, t)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);      // (B_c, d)
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));  // (B_r, B_c)
      // TODO: the online softmax. Take this tile's scores into mi, li and Oi, so that after the last tile
      // Oi / li is the output and mi + log(li) the log-sum-exp of the whole row.
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

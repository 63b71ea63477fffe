// Exercise 7: exchange the loops. Read 07_loop_exchange.md first.
#include "lessons/exercises/given/steps.h"

// TODO: FlashAttention 1's loop order: K and V outside, so that O, l and m go through HBM on every visit.
// Exchange the loops: one thread block for every block of rows, with O, l and m on chip from first to last.
void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("initialise", row_blocks(p, t), [&](Machine& sm, Block i) {
    sm.store(O_sum, i, sm.zeros(O, i));
    sm.store(l, i, sm.zeros(l, i));
    sm.store(m, i, sm.fill(m, i, -infinity));
  });
  gpu.kernel("forward", blocks(1, 1), [&](Machine& sm, Block) {
    for (Block j : col_blocks(p, t)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      for (Block i : visible_rows(p, t, j)) {
        Tile Qi = sm.load(Q, i), Oi = sm.load(O_sum, i);
        Tile li = sm.load(l, i), mi = sm.load(m, i);
        Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
        sm.mask(Sij, i, j);
        given::online_softmax_step(sm, Oi, li, mi, Sij, Vj);
        sm.store(O_sum, i, Oi);
        sm.store(l, i, li);
        sm.store(m, i, mi);
      }
    }
  });
  gpu.kernel("divide", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.load(O_sum, i), li = sm.load(l, i), mi = sm.load(m, i);
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

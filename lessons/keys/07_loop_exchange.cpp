#include "lessons/exercises/given/steps.h"

void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : visible_cols(p, t, i)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      given::online_softmax_step(sm, Oi, li, mi, Sij, Vj);
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

#include "lessons/exercises/given/schedule.h"

void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : col_blocks(p, t)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      Tile m_new = sm.max(mi, sm.row_max(Sij));
      Tile& Pij = sm.exp(Sij, m_new);
      Tile correction = sm.exp_difference(mi, m_new);
      sm.add_row_sum(sm.scale_rows(li, correction), Pij);
      sm.scale_rows(Oi, correction);
      sm.add_matmul(Oi, Pij, Vj);
      mi = std::move(m_new);
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

// Exercise 6: rescaled output. Read 06_rescaled_output.md first.
#include "lessons/exercises/given/schedule.h"

void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : visible_cols(p, t, i)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      // TODO: FlashAttention 1 keeps Oi normalised: each step undoes the last division and divides again.
      // Keep Oi unnormalised instead, and divide it once, after the loop.
      Tile m_tile = sm.row_max(Sij);
      Tile& Pij = sm.exp(Sij, m_tile);
      Tile l_tile = sm.row_sum(Pij);
      Tile m_new = sm.max(mi, m_tile);
      Tile old_factor = sm.exp_difference(mi, m_new), tile_factor = sm.exp_difference(m_tile, m_new);
      sm.scale_rows(Oi, li);
      sm.scale_rows(Oi, old_factor);
      sm.scale_rows(Pij, tile_factor);
      sm.add_matmul(Oi, Pij, Vj);
      sm.add(sm.scale_rows(li, old_factor), sm.scale_rows(l_tile, tile_factor));
      sm.divide_rows(Oi, li);
      mi = std::move(m_new);
    }
    sm.store(O, i, Oi);
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

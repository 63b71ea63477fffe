// FlashAttention (Dao et al. 2022), Algorithm 1, with Algorithm 2's mask and dropout. One thread block a
// head: K and V outside, while O, l and m go through HBM on every visit. Tiling::temporaries says how O waits
// there: in the inputs' dtype as the paper counts, or in fp32 as the released code keeps it.
#include "simulator/schedules/schedules.h"

namespace flashsim {

void fa1_forward(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  const bool wide = t.temporaries == accumulator(p) && dtype_in_hbm(O, p) != t.temporaries;
  const Tensor O_ = wide ? O_sum : O;
  gpu.kernel("initialise", row_blocks(p, t), [&](Machine& sm, Block i) {  // line 2
    sm.store(O_, i, sm.zeros(O, i));
    if (wide && visible_cols(p, t, i).empty()) sm.store(O, i, sm.zeros(O, i));  // no visit will
    sm.store(l, i, sm.zeros(l, i));
    sm.store(m, i, sm.fill(m, i, -infinity));
  });
  gpu.kernel("forward", blocks(1, 1), [&](Machine& sm, Block) {
    for (Block j : col_blocks(p, t)) {  // line 5
      if (visible_rows(p, t, j).empty()) continue;
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);     // line 6
      for (Block i : visible_rows(p, t, j)) {          // line 7
        Tile Qi = sm.load(Q, i), Oi = sm.load(O_, i);  // line 8
        Tile li = sm.load(l, i), mi = sm.load(m, i);
        Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));  // line 9
        sm.mask(Sij, i, j);
        Tile m_tile = sm.row_max(Sij);  // line 10: within this tile
        Tile& Pij = sm.exp(Sij, m_tile);
        Tile l_tile = sm.row_sum(Pij);
        Tile m_new = sm.max(mi, m_tile);  // line 11: with what was seen before
        Tile old_factor = sm.exp_difference(mi, m_new);
        Tile tile_factor = sm.exp_difference(m_tile, m_new);
        sm.scale_rows(Oi, li);  // line 12: undo the last visit's division
        sm.scale_rows(Oi, old_factor);
        sm.dropout(Pij, i, j);
        sm.scale_rows(Pij, tile_factor);
        sm.add_matmul(Oi, Pij, Vj);
        Tile& l_new = sm.add(sm.scale_rows(li, old_factor), sm.scale_rows(l_tile, tile_factor));
        sm.store(is_last_visit(p, t, i, j) ? O : O_, i, sm.divide_rows(Oi, l_new));
        sm.store(l, i, l_new);  // line 13
        sm.store(m, i, m_new);
      }
    }
  });
}

}  // namespace flashsim

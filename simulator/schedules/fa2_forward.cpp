// FlashAttention-2 (Dao 2023), Algorithm 1. One thread block a row block: O, l, m never leave the chip, and O
// is divided once, at the end.
#include "simulator/schedules/schedules.h"

namespace flashsim {

void fa2_forward(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    const Blocks visible = visible_cols(p, t, i);  // the mask decides which tiles exist at all
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    if (visible.empty()) {  // rows that see nothing: O = 0, LSE = -infinity, and Q is not needed
      sm.store(O, i, Oi);
      sm.store(LSE, i, sm.log_sum(mi, li));
      return;
    }
    Tile Qi = sm.load(Q, i);
    for (Block j : visible) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      Tile m_new = sm.max(mi, sm.row_max(Sij));
      Tile& Pij = sm.exp(Sij, m_new);                  // in place: P takes S's room
      Tile correction = sm.exp_difference(mi, m_new);  // what the old maximum was wrong by
      sm.add_row_sum(sm.scale_rows(li, correction), Pij);
      sm.scale_rows(Oi, correction);
      sm.dropout(Pij, i, j);  // after the row sum: l counts dropped elements too
      sm.add_matmul(Oi, Pij, Vj);
      mi = std::move(m_new);
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

}  // namespace flashsim

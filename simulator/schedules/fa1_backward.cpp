// FlashAttention (Dao et al. 2022), Algorithm 4. S and P are computed again from Q, K and the saved l, m, and
// the dropout mask is drawn again; dQ goes through HBM on every visit, in Tiling::temporaries' dtype.
#include "simulator/schedules/schedules.h"

namespace flashsim {

void fa1_backward(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  const bool wide = t.temporaries == accumulator(p) && dtype_in_hbm(dQ, p) != t.temporaries;
  const Tensor dQ_ = wide ? dQ_sum : dQ;
  gpu.kernel("initialise", row_blocks(p, t), [&](Machine& sm, Block i) {  // line 5
    sm.store(dQ_, i, sm.zeros(dQ, i));
    if (wide && visible_cols(p, t, i).empty()) sm.store(dQ, i, sm.zeros(dQ, i));
  });
  gpu.kernel("backward", blocks(1, 1), [&](Machine& sm, Block) {
    for (Block j : col_blocks(p, t)) {                    // line 6
      Tile dKj = sm.zeros(dK, j), dVj = sm.zeros(dV, j);  // line 8
      if (visible_rows(p, t, j).empty()) {                // no query sees these keys
        sm.store(dK, j, dKj);
        sm.store(dV, j, dVj);
        continue;
      }
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);    // line 7
      for (Block i : visible_rows(p, t, j)) {         // line 9
        Tile Qi = sm.load(Q, i), Oi = sm.load(O, i);  // line 10
        Tile dOi = sm.load(dO, i), dQi = sm.load(dQ_, i);
        Tile li = sm.load(l, i), mi = sm.load(m, i);
        Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));  // line 11
        sm.mask(Sij, i, j);                               // line 12
        Tile& Pij = sm.divide_rows(sm.exp(Sij, mi), li);  // line 13
        Tile dPij = sm.matmul_nt(dP, dOi, Vj);            // line 17
        sm.dropout(dPij, i, j);                           // line 18
        Tile Di = sm.row_dot(dOi, Oi);                    // line 19
        Tile& dSij = sm.softmax_gradient(dPij, Pij, Di);  // line 20
        sm.add_matmul(dQi, dSij, Kj, scale_of(p));        // line 21
        sm.store(is_last_visit(p, t, i, j) ? dQ : dQ_, i, dQi);
        sm.add_matmul_tn(dKj, dSij, Qi, scale_of(p));  // line 22
        sm.dropout(Pij, i, j);                         // lines 14, 15, after dS has used P as it was
        sm.add_matmul_tn(dVj, Pij, dOi);               // line 16
      }
      sm.store(dK, j, dKj);  // line 24
      sm.store(dV, j, dVj);
    }
  });
}

}  // namespace flashsim

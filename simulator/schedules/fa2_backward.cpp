// FlashAttention-2 (Dao 2023), Algorithm 2. One thread block a column block; dQ is summed across thread
// blocks by adding to fp32 memory. With grouped queries the loop runs over every query head of the group, so
// dK and dV stay on chip.
#include "simulator/schedules/schedules.h"

namespace flashsim {

void fa2_backward(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("prepare", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.load(O, i), dOi = sm.load(dO, i);
    sm.store(D, i, sm.row_dot(dOi, Oi));  // line 4: D = rowsum(dO o O)
    sm.store(dQ_sum, i, sm.zeros(dQ_sum, i));
  });
  gpu.kernel("backward", col_blocks(p, t), [&](Machine& sm, Block j) {
    Tile dKj = sm.zeros(dK, j), dVj = sm.zeros(dV, j);
    if (visible_rows(p, t, j).empty()) {  // no query sees these keys
      sm.store(dK, j, dKj);
      sm.store(dV, j, dVj);
      return;
    }
    Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
    for (Block i : visible_rows(p, t, j)) {
      Tile Qi = sm.load(Q, i), dOi = sm.load(dO, i);
      Tile LSEi = sm.load(LSE, i), Di = sm.load(D, i);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      Tile& Pij = sm.exp(Sij, LSEi);  // already normalised: LSE holds m and l
      Tile dPij = sm.matmul_nt(dP, dOi, Vj);
      sm.dropout(dPij, i, j);                           // the forward pass's mask, drawn again
      Tile& dSij = sm.softmax_gradient(dPij, Pij, Di);  // P o (dP - D)
      Tile dQij = sm.zeros(dQ_sum, i);
      sm.add_matmul(dQij, dSij, Kj, scale_of(p));
      sm.reduce_add(dQ_sum, i, dQij);
      sm.add_matmul_tn(dKj, dSij, Qi, scale_of(p));
      sm.dropout(Pij, i, j);  // dS needed P as it was, dV needs what reached O
      sm.add_matmul_tn(dVj, Pij, dOi);
    }
    sm.store(dK, j, dKj);
    sm.store(dV, j, dVj);
  });
  gpu.kernel("convert dQ", row_blocks(p, t),
             [&](Machine& sm, Block i) { sm.store(dQ, i, sm.load(dQ_sum, i)); });
}

}  // namespace flashsim

#include "lessons/exercises/given/schedule.h"

void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("prepare", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.load(O, i), dOi = sm.load(dO, i);
    sm.store(D, i, sm.row_dot(dOi, Oi));  // D = rowsum(dO o O)
    sm.store(dQ_sum, i, sm.zeros(dQ_sum, i));
  });
  gpu.kernel("backward", col_blocks(p, t), [&](Machine& sm, Block j) {
    Tile dKj = sm.zeros(dK, j), dVj = sm.zeros(dV, j);
    Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
    for (Block i : visible_rows(p, t, j)) {
      Tile Qi = sm.load(Q, i), dOi = sm.load(dO, i);
      Tile LSEi = sm.load(LSE, i), Di = sm.load(D, i);
      Tile dQij = sm.zeros(dQ_sum, i);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      Tile& Pij = sm.exp(Sij, LSEi);
      Tile dPij = sm.matmul_nt(dP, dOi, Vj);
      sm.dropout(dPij, i, j);
      Tile& dSij = sm.softmax_gradient(dPij, Pij, Di);
      sm.add_matmul(dQij, dSij, Kj, scale_of(p));
      sm.add_matmul_tn(dKj, dSij, Qi, scale_of(p));
      sm.dropout(Pij, i, j);
      sm.add_matmul_tn(dVj, Pij, dOi);
      sm.reduce_add(dQ_sum, i, dQij);
    }
    sm.store(dK, j, dKj);
    sm.store(dV, j, dVj);
  });
  gpu.kernel("convert dQ", row_blocks(p, t),
             [&](Machine& sm, Block i) { sm.store(dQ, i, sm.load(dQ_sum, i)); });
}

// Standard attention's backward pass as the papers write it: five kernels, P, dP and dS through HBM as whole
// n x n matrices; products are tiled as in the forward pass.
#include "simulator/schedules/schedules.h"

namespace flashsim {

void standard_backward(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("dV = P^T dO", col_blocks(p, t), [&](Machine& sm, Block j) {
    Tile dVj = sm.zeros(dV, j);
    for (Block i : visible_rows(p, t, j)) {
      Tile Pij = sm.load(P, i, j), dOi = sm.load(dO, i);
      sm.dropout(Pij, i, j);
      sm.add_matmul_tn(dVj, Pij, dOi);
    }
    sm.store(dV, j, dVj);
  });
  gpu.kernel("dP = dO V^T", row_blocks(p, t), col_blocks(p, t), [&](Machine& sm, Block i, Block j) {
    if (!is_visible(p, t, i, j)) return;
    Tile dOi = sm.load(dO, i), Vj = sm.load(V, j);
    Tile dPij = sm.matmul_nt(dP, dOi, Vj);
    sm.dropout(dPij, i, j);
    sm.store(dP, i, j, dPij);
  });
  gpu.kernel("dS = P o (dP - D)", row_blocks(p, t), [&](Machine& sm, Block i) {
    const Block columns = visible_range(p, t, i);
    if (columns.rows == 0) return;
    for (Block r : rows_in(i)) {
      Tile Pr = sm.load(P, r, columns), dPr = sm.load(dP, r, columns);
      Tile Dr = sm.row_dot(dPr, Pr);
      sm.store(dS, r, columns, sm.softmax_gradient(dPr, Pr, Dr));
    }
  });
  gpu.kernel("dQ = dS K", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile dQi = sm.zeros(dQ, i);
    for (Block j : visible_cols(p, t, i)) {
      Tile dSij = sm.load(dS, i, j), Kj = sm.load(K, j);
      sm.add_matmul(dQi, dSij, Kj, scale_of(p));
    }
    sm.store(dQ, i, dQi);
  });
  gpu.kernel("dK = dS^T Q", col_blocks(p, t), [&](Machine& sm, Block j) {
    Tile dKj = sm.zeros(dK, j);
    for (Block i : visible_rows(p, t, j)) {
      Tile dSij = sm.load(dS, i, j), Qi = sm.load(Q, i);
      sm.add_matmul_tn(dKj, dSij, Qi, scale_of(p));
    }
    sm.store(dK, j, dKj);
  });
}

}  // namespace flashsim

// Standard attention as the papers write it: three kernels forward, five backward, every n x n matrix through
// HBM. Matrix products are tiled: with blocks as long as the sequence each operand is read once, as an ideal
// library would; with the blocks of a real kernel, as often as that kernel reads it. Tiles that the mask
// hides are never written, and the softmax reads the visible columns of its row block only.
#include "simulator/schedules/schedules.h"

namespace flashsim {

void standard_forward(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("S = Q K^T", row_blocks(p, t), col_blocks(p, t), [&](Machine& sm, Block i, Block j) {
    if (!is_visible(p, t, i, j)) return;
    Tile Qi = sm.load(Q, i), Kj = sm.load(K, j);
    Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
    sm.mask(Sij, i, j);
    sm.store(S, i, j, Sij);
  });
  gpu.kernel("P = softmax(S)", row_blocks(p, t), [&](Machine& sm, Block i) {
    const Block columns = visible_range(p, t, i);
    if (columns.rows == 0) return;
    for (Block r : rows_in(i)) {  // whole rows, one after another
      Tile Sr = sm.load(S, r, columns);
      Tile& Pr = sm.exp(Sr, sm.row_max(Sr));
      sm.store(P, r, columns, sm.divide_rows(Pr, sm.row_sum(Pr)));
    }
  });
  gpu.kernel("O = P V", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i);
    for (Block j : visible_cols(p, t, i)) {
      Tile Pij = sm.load(P, i, j), Vj = sm.load(V, j);
      sm.dropout(Pij, i, j);
      sm.add_matmul(Oi, Pij, Vj);
    }
    sm.store(O, i, Oi);
  });
}

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

// Standard attention as the papers write it: three kernels, S and P through HBM as whole n x n matrices.
// Matrix products are tiled: with blocks as long as the sequence each operand is read once, as an ideal
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

}  // namespace flashsim

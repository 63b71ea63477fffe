// Standard attention as an eager framework runs it: one kernel an operator, each reading its operands from
// HBM and writing its result there. With a mask the framework adds a bias in a pass of its own; with dropout
// it writes a byte mask. EagerPasses chooses between the two pass lists that are known for FlashAttention's
// Figure 2.
#include "simulator/schedules/each_row.h"
#include "simulator/schedules/schedules.h"

namespace flashsim {

void standard_eager_forward(Device& gpu, const Problem& p, const Tiling& t, const EagerPasses& passes) {
  using enum Tensor;
  const Block all{0, 0, p.seqlen_k};
  const double folded = passes.separate_scale ? 1 : scale_of(p);
  gpu.kernel("S = Q K^T", row_blocks(p, t), col_blocks(p, t), [&](Machine& sm, Block i, Block j) {
    Tile Qi = sm.load(Q, i), Kj = sm.load(K, j);
    sm.store(S, i, j, sm.matmul_nt(S, Qi, Kj, folded));
  });
  if (passes.separate_scale)
    each_row(gpu, p, t, "S * scale", [&](Machine& sm, Block r) {
      Tile Sr = sm.load(S, r, all);
      sm.store(S, r, all, sm.multiply(Sr, scale_of(p)));
    });
  if (p.masked() || passes.additive_mask)
    each_row(gpu, p, t, "S + mask", [&](Machine& sm, Block r) {
      Tile Sr = sm.load(S, r, all);
      sm.mask(Sr, r, all);
      sm.store(S, r, all, Sr);
    });
  each_row(gpu, p, t, "P = softmax(S)", [&](Machine& sm, Block r) {
    Tile Sr = sm.load(S, r, all);
    Tile& Pr = sm.exp(Sr, sm.row_max(Sr));
    sm.store(P, r, all, sm.divide_rows(Pr, sm.row_sum(Pr)));
  });
  const bool drops = p.dropout_p > 0;
  if (drops)
    each_row(gpu, p, t, "P_dropped = dropout(P)", [&](Machine& sm, Block r) {
      Tile Pr = sm.load(P, r, all);
      Tile kept = sm.fill(dropout_mask, r, 1);
      sm.dropout(kept, r, all);
      sm.store(dropout_mask, r, all, kept);
      sm.dropout(Pr, r, all);
      sm.store(P_dropped, r, all, Pr);
    });
  gpu.kernel("O = P V", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i);
    for (Block j : col_blocks(p, t)) {
      Tile Pij = sm.load(drops ? P_dropped : P, i, j), Vj = sm.load(V, j);
      sm.add_matmul(Oi, Pij, Vj);
    }
    sm.store(O, i, Oi);
  });
}

}  // namespace flashsim

// Standard attention as an eager framework runs it: one kernel an operator, each reading its operands from
// HBM and writing its result there. With a mask the framework adds a bias in a pass of its own; with dropout
// it writes a byte mask. EagerPasses chooses between the two pass lists that are known for FlashAttention's
// Figure 2.
#include "simulator/schedules/schedules.h"

namespace flashsim {
namespace {

/// An operator that maps rows of n x n matrices onto rows: one thread block a row block.
template <class Row>
void each_row(Device& gpu, const Problem& p, const Tiling& t, std::string_view name, Row row) {
  gpu.kernel(name, row_blocks(p, t), [&](Machine& sm, Block i) {
    for (Block r : rows_in(i)) row(sm, r);
  });
}

}  // namespace

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

void standard_eager_backward(Device& gpu, const Problem& p, const Tiling& t, const EagerPasses& passes) {
  using enum Tensor;
  const Block all{0, 0, p.seqlen_k};
  const bool drops = p.dropout_p > 0;
  const double folded = passes.separate_scale ? 1 : scale_of(p);
  gpu.kernel("dV = P^T dO", col_blocks(p, t), [&](Machine& sm, Block j) {
    Tile dVj = sm.zeros(dV, j);
    for (Block i : all_rows(p, t)) {
      Tile Pij = sm.load(drops ? P_dropped : P, i, j), dOi = sm.load(dO, i);
      sm.add_matmul_tn(dVj, Pij, dOi);
    }
    sm.store(dV, j, dVj);
  });
  gpu.kernel("dP = dO V^T", row_blocks(p, t), col_blocks(p, t), [&](Machine& sm, Block i, Block j) {
    Tile dOi = sm.load(dO, i), Vj = sm.load(V, j);
    sm.store(dP, i, j, sm.matmul_nt(dP, dOi, Vj));
  });
  if (drops)
    each_row(gpu, p, t, "dP = dropout'(dP)", [&](Machine& sm, Block r) {
      Tile dPr = sm.load(dP, r, all), kept = sm.load(dropout_mask, r, all);
      sm.multiply(sm.multiply(dPr, kept), 1 / (1 - double{p.dropout_p}));
      sm.store(dP, r, all, dPr);
    });
  if (passes.fused_softmax_backward) {
    each_row(gpu, p, t, "dS = P o (dP - D)", [&](Machine& sm, Block r) {
      Tile Pr = sm.load(P, r, all), dPr = sm.load(dP, r, all);
      Tile Dr = sm.row_dot(dPr, Pr);
      sm.store(dS, r, all, sm.softmax_gradient(dPr, Pr, Dr));
    });
  } else {  // the framework multiplies first and keeps the product: dP o P, then minus P times its row sum
    each_row(gpu, p, t, "dP o P", [&](Machine& sm, Block r) {
      Tile dPr = sm.load(dP, r, all), Pr = sm.load(P, r, all);
      sm.store(dS, r, all, sm.multiply(dPr, Pr));
    });
    each_row(gpu, p, t, "dS = dP o P - P o D", [&](Machine& sm, Block r) {
      Tile product = sm.load(dS, r, all), Pr = sm.load(P, r, all);
      Tile Dr = sm.row_sum(product);
      sm.scale_rows(Pr, Dr);
      sm.store(dS, r, all, sm.add(product, sm.multiply(Pr, -1)));
    });
  }
  if (passes.separate_scale)
    each_row(gpu, p, t, "dS * scale", [&](Machine& sm, Block r) {
      Tile dSr = sm.load(dS, r, all);
      sm.store(dS, r, all, sm.multiply(dSr, scale_of(p)));
    });
  gpu.kernel("dQ = dS K", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile dQi = sm.zeros(dQ, i);
    for (Block j : col_blocks(p, t)) {
      Tile dSij = sm.load(dS, i, j), Kj = sm.load(K, j);
      sm.add_matmul(dQi, dSij, Kj, folded);
    }
    sm.store(dQ, i, dQi);
  });
  gpu.kernel("dK = dS^T Q", col_blocks(p, t), [&](Machine& sm, Block j) {
    Tile dKj = sm.zeros(dK, j);
    for (Block i : all_rows(p, t)) {
      Tile dSij = sm.load(dS, i, j), Qi = sm.load(Q, i);
      sm.add_matmul_tn(dKj, dSij, Qi, folded);
    }
    sm.store(dK, j, dKj);
  });
}

}  // namespace flashsim

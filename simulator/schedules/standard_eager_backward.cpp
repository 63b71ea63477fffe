// The backward pass of an eager framework: the gradient of each operator of the forward pass, from the last
// to the first, one kernel an operator.
#include "simulator/schedules/each_row.h"
#include "simulator/schedules/schedules.h"

namespace flashsim {

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

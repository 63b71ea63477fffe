#include "lessons/exercises/given/schedule.h"

void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("S = Q K^T", row_blocks(p, t), col_blocks(p, t), [&](Machine& sm, Block i, Block j) {
    Tile Qi = sm.load(Q, i), Kj = sm.load(K, j);
    Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
    sm.store(S, i, j, Sij);
  });
  gpu.kernel("P = softmax(S)", row_blocks(p, t), [&](Machine& sm, Block i) {
    const Block all{0, 0, p.seqlen_k};
    for (Block r : rows_in(i)) {
      Tile Sr = sm.load(S, r, all);
      Tile& Pr = sm.exp(Sr, sm.row_max(Sr));
      sm.store(P, r, all, sm.divide_rows(Pr, sm.row_sum(Pr)));
    }
  });
  gpu.kernel("O = P V", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i);
    for (Block j : col_blocks(p, t)) {
      Tile Pij = sm.load(P, i, j), Vj = sm.load(V, j);
      sm.add_matmul(Oi, Pij, Vj);
    }
    sm.store(O, i, Oi);
  });
}

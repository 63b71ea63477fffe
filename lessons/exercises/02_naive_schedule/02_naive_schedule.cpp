// Exercise 2: standard attention. Read 02_naive_schedule.md first.
#include "lessons/exercises/given/schedule.h"

void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("S = Q K^T", row_blocks(p, t), col_blocks(p, t), [&](Machine& sm, Block i, Block j) {
    Tile Qi = sm.load(Q, i), Kj = sm.load(K, j);  // (B_r, d), (B_c, d)
    Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
    sm.store(S, i, j, Sij);
  });
  // TODO: a kernel that turns S into P = softmax(S), row by row. It may hold whole rows: rows_in(i) are the
  // single rows of block i, and the columns of all keys are Block{0, 0, p.seqlen_k}.
  gpu.kernel("O = P V", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i);
    for (Block j : col_blocks(p, t)) {
      Tile Pij = sm.load(P, i, j), Vj = sm.load(V, j);
      sm.add_matmul(Oi, Pij, Vj);
    }
    sm.store(O, i, Oi);
  });
}

// Exercise 8: the backward pass by recomputation. Read 08_backward.md first.
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
      // TODO: P from Q, K and LSE alone (mask and dropout as in the forward pass); then this tile's part of
      // dV, dS, and its parts of dQ and dK, into dVj, dQij and dKj.
      sm.reduce_add(dQ_sum, i, dQij);
    }
    sm.store(dK, j, dKj);
    sm.store(dV, j, dVj);
  });
  gpu.kernel("convert dQ", row_blocks(p, t),
             [&](Machine& sm, Block i) { sm.store(dQ, i, sm.load(dQ_sum, i)); });
}

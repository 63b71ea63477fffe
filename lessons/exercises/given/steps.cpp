#include "lessons/exercises/given/steps.h"

#include <utility>

namespace given {

void online_softmax_step(Machine& sm, Tile& Oi, Tile& li, Tile& mi, Tile& Sij, const Tile& Vj) {
  Tile m_new = sm.max(mi, sm.row_max(Sij));
  Tile& Pij = sm.exp(Sij, m_new);
  Tile correction = sm.exp_difference(mi, m_new);
  sm.add_row_sum(sm.scale_rows(li, correction), Pij);
  sm.scale_rows(Oi, correction);
  sm.add_matmul(Oi, Pij, Vj);
  mi = std::move(m_new);
}

void decoding_split(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("split", packed_row_blocks(p, t), key_splits(p, t), [&](Machine& sm, Block i, Block s) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : within(visible_cols(p, t, i), s)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      online_softmax_step(sm, Oi, li, mi, Sij, Vj);
    }
    sm.store(O_part, in_part(i, s.index), sm.divide_rows(Oi, li));
    sm.store(LSE_part, in_part(i, s.index), sm.log_sum(mi, li));
  });
}

}  // namespace given

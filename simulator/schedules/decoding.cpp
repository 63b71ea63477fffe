// Flash-Decoding (Dao, Haziza, Massa, Sizov 2023): few queries, many keys. The keys are split over thread
// blocks, and a second kernel merges the parts. One thread block serves all query heads of a K/V head, their
// rows packed together, so that K and V are read once.
#include "simulator/schedules/schedules.h"

namespace flashsim {

void decoding_forward(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  const Blocks rows = packed_row_blocks(p, t), splits = key_splits(p, t);
  const bool merge = splits.count() > 1;
  gpu.kernel("split", rows, splits, [&](Machine& sm, Block i, Block s) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : within(visible_cols(p, t, i), s)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      Tile m_new = sm.max(mi, sm.row_max(Sij));
      Tile& Pij = sm.exp(Sij, m_new);
      Tile correction = sm.exp_difference(mi, m_new);
      sm.add_row_sum(sm.scale_rows(li, correction), Pij);
      sm.scale_rows(Oi, correction);
      sm.add_matmul(Oi, Pij, Vj);
      mi = std::move(m_new);
    }
    sm.store(merge ? O_part : O, in_part(i, s.index), sm.divide_rows(Oi, li));
    sm.store(merge ? LSE_part : LSE, in_part(i, s.index), sm.log_sum(mi, li));
  });
  if (!merge) return;
  gpu.kernel("merge", rows, [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block s : splits) {  // online softmax over parts instead of keys
      Tile Ls = sm.load(LSE_part, in_part(i, s.index)), Os = sm.load(O_part, in_part(i, s.index));
      Tile m_new = sm.max(mi, Ls);
      Tile correction = sm.exp_difference(mi, m_new), weight = sm.exp_difference(Ls, m_new);
      sm.add(sm.scale_rows(li, correction), weight);
      sm.add(sm.scale_rows(Oi, correction), sm.scale_rows(Os, weight));
      mi = std::move(m_new);
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

}  // namespace flashsim

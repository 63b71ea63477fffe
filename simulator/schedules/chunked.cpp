// "Self-attention does not need O(n^2) memory" (Rabe and Staats 2021). For each chunk of queries, every chunk
// of keys is summarised on its own into O, l and its maximum m; the summaries wait in HBM and are then
// combined with the largest m. Memory is linear as in FlashAttention, but the summaries' way through HBM
// costs bytes.
#include "simulator/schedules/schedules.h"

namespace flashsim {

void chunked_forward(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    const Blocks chunks = visible_cols(p, t, i);
    Tile mi = sm.fill(m, i, -infinity);
    {
      Tile Qi = sm.load(Q, i);
      for (Block j : chunks) {  // summarize_chunk
        Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
        Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
        sm.mask(Sij, i, j);
        Tile m_chunk = sm.row_max(Sij);
        Tile& Pij = sm.exp(Sij, m_chunk);
        sm.store(l_part, in_part(i, j.index), sm.row_sum(Pij));
        sm.store(m_part, in_part(i, j.index), m_chunk);
        sm.dropout(Pij, i, j);
        Tile O_chunk = sm.zeros(O, i);
        sm.add_matmul(O_chunk, Pij, Vj);
        sm.store(O_part, in_part(i, j.index), O_chunk);
        mi = sm.max(mi, m_chunk);  // chunk_max.max()
      }
    }
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i);
    for (Block j : chunks) {  // all_values = sum of exp(chunk_max - global_max) * chunk_values
      Tile m_chunk = sm.load(m_part, in_part(i, j.index)), l_chunk = sm.load(l_part, in_part(i, j.index));
      Tile O_chunk = sm.load(O_part, in_part(i, j.index));
      Tile weight = sm.exp_difference(m_chunk, mi);
      sm.add(li, sm.scale_rows(l_chunk, weight));
      sm.add(Oi, sm.scale_rows(O_chunk, weight));
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

}  // namespace flashsim

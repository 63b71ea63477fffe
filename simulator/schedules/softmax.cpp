// Softmax of scores that lie in memory, as a kernel of its own (Milakov & Gimelshein 2018): how much does one
// pass over memory cost? Every pass loads S again, in pieces that no thread block keeps.
#include "simulator/schedules/schedules.h"

namespace flashsim {

/// Maximum, then sum of exp(x - max), then exp(x - max) / sum: four accesses an element.
void softmax_safe(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  const Blocks cols = col_blocks(p, t);
  gpu.kernel("P = softmax(S)", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile mi = sm.fill(m, i, -infinity), li = sm.zeros(l, i);
    for (Block j : cols) mi = sm.max(mi, sm.row_max(sm.load(S, i, j)));
    for (Block j : cols) {
      Tile Sij = sm.load(S, i, j);
      sm.add_row_sum(li, sm.exp(Sij, mi));
    }
    for (Block j : cols) {
      Tile Sij = sm.load(S, i, j);
      Tile& Pij = sm.exp(Sij, mi);
      sm.store(P, i, j, sm.divide_rows(Pij, li));
    }
  });
}

/// Maximum and sum together, the sum corrected where the maximum grows: three accesses an element.
void softmax_online(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  const Blocks cols = col_blocks(p, t);
  gpu.kernel("P = softmax(S)", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile mi = sm.fill(m, i, -infinity), li = sm.zeros(l, i);
    for (Block j : cols) {
      Tile Sij = sm.load(S, i, j);
      Tile m_new = sm.max(mi, sm.row_max(Sij));
      sm.scale_rows(li, sm.exp_difference(mi, m_new));  // what was summed under the old maximum
      sm.add_row_sum(li, sm.exp(Sij, m_new));
      mi = std::move(m_new);
    }
    for (Block j : cols) {
      Tile Sij = sm.load(S, i, j);
      Tile& Pij = sm.exp(Sij, mi);
      sm.store(P, i, j, sm.divide_rows(Pij, li));
    }
  });
}

}  // namespace flashsim

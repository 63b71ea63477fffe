// WrongKernel insides of exercise 12's tile loop. The frame is the exercise's: every tile of keys comes by,
// hidden or not, and O is divided by l at the end.
#include <algorithm>
#include <utility>

#include "lessons/grader/mistakes_cuda.h"

namespace flashsim::lessons {
namespace {

using enum Tensor;

enum class WrongKernel {
  no_rescale_of_o,
  no_rescale_of_l,
  no_rescale,
  inverted_correction,
  tile_maximum_only,
  maximum_not_kept,
  no_maximum,
  scale_missing,
  scale_twice,
  divided_in_loop,
  divided_and_undone,
  missing_tail,
  stale_tail,
  mask_after_softmax,
  mask_missing,
  nothing_summed
};

template <WrongKernel wrong>
void kernel_with(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    const auto visit = [&](Block j) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      const double scale = wrong == WrongKernel::scale_missing ? 1
                           : wrong == WrongKernel::scale_twice ? scale_of(p) * scale_of(p)
                                                               : scale_of(p);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale);
      Tile visible = sm.copy(S, Sij);
      if (wrong != WrongKernel::mask_missing && wrong != WrongKernel::stale_tail) sm.mask(visible, i, j);
      Tile m_tile = sm.row_max(wrong == WrongKernel::mask_after_softmax ? Sij : visible);
      Tile m_new = wrong == WrongKernel::no_maximum          ? sm.fill(m, i, 0)
                   : wrong == WrongKernel::tile_maximum_only ? std::move(m_tile)
                                                             : sm.max(mi, m_tile);
      // After a softmax over all keys, hidden ones are left out of P V only.
      Tile& Pij = sm.exp(visible, m_new);
      Tile& summed = wrong == WrongKernel::mask_after_softmax ? sm.exp(Sij, m_new) : Pij;
      Tile correction = wrong == WrongKernel::inverted_correction ? sm.exp_difference(m_new, mi)
                                                                  : sm.exp_difference(mi, m_new);
      if (wrong == WrongKernel::divided_and_undone) sm.scale_rows(Oi, li);
      if (wrong != WrongKernel::no_rescale_of_l && wrong != WrongKernel::no_rescale)
        sm.scale_rows(li, correction);
      sm.add_row_sum(li, summed);
      if (wrong != WrongKernel::no_rescale_of_o && wrong != WrongKernel::no_rescale)
        sm.scale_rows(Oi, correction);
      sm.add_matmul(Oi, Pij, Vj);
      if (wrong == WrongKernel::divided_in_loop || wrong == WrongKernel::divided_and_undone)
        sm.divide_rows(Oi, li);
      if (wrong != WrongKernel::maximum_not_kept) mi = std::move(m_new);
    };
    const int ragged = p.seqlen_k % t.block_k;
    for (Block j : col_blocks(p, t)) {
      if (wrong == WrongKernel::nothing_summed || (wrong == WrongKernel::missing_tail && j.rows < t.block_k))
        continue;
      visit(j);
    }
    // Behind the keys of a ragged tile its shared memory still holds those of the tile before.
    if (wrong == WrongKernel::stale_tail && ragged > 0 && p.seqlen_k > t.block_k) {
      const int before = p.seqlen_k / t.block_k - 1;
      visit({before, before * t.block_k + ragged, t.block_k - ragged});
    }
    sm.divide_rows(Oi, li);
    sm.store(O, i, Oi);
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

}  // namespace

std::vector<Mistake> kernel_mistakes() {
  return {
      {"O is not rescaled when the maximum grows",
       "O[c] was summed with the old maximum as l was: multiply both by expf(m - m_new) before this tile is "
       "added.",
       kernel_with<WrongKernel::no_rescale_of_o>},
      {"l is not rescaled when the maximum grows",
       "l was summed with the old maximum as O was: multiply it by expf(m - m_new) before this tile is "
       "added.",
       kernel_with<WrongKernel::no_rescale_of_l>},
      {"neither l nor O is rescaled when the maximum grows",
       "What was summed with the old maximum must be multiplied by expf(m - m_new), both l and every O[c].",
       kernel_with<WrongKernel::no_rescale>},
      {"the correction factor is inverted",
       "The factor is expf(m - m_new), old minus new, at most 1. Put two numbers in.",
       kernel_with<WrongKernel::inverted_correction>},
      {"the maximum is that of this tile or key, not the running one",
       "m_new = fmaxf(m, ...): a smaller score later must not lower the maximum.",
       kernel_with<WrongKernel::tile_maximum_only>},
      {"m is never set to the new maximum",
       "At the end of a step m = m_new; else the next one takes m = -infinity, and forgets all before it.",
       kernel_with<WrongKernel::maximum_not_kept>},
      {"no maximum is subtracted",
       "expf(s) overflows for s above 88. expf(s - m_new) never does, and O / l is the same.",
       kernel_with<WrongKernel::no_maximum>},
      {"the scores are not scaled", "A score is p.scale times the sum of Q[c] * K[j][c].",
       kernel_with<WrongKernel::scale_missing>},
      {"the scores are scaled twice", "p.scale is 1 / sqrt(head_dim) already, and is multiplied once.",
       kernel_with<WrongKernel::scale_twice>},
      {"O is normalised twice",
       "The division by l stands at the end of the kernel, as given: nothing is divided inside the loop.",
       kernel_with<WrongKernel::divided_in_loop>},
      {"O is normalised twice",
       "FlashAttention 1 keeps O divided by l after every tile; here the division stands at the end, as "
       "given, and is the only one.",
       kernel_with<WrongKernel::divided_and_undone>},
      {"the last, ragged tile is left out",
       "A tile with fewer than 32 keys counts too: go up to min(count, last_key - begin).",
       kernel_with<WrongKernel::missing_tail>},
      {"the last tile's missing tail is read",
       "A ragged tile holds `count` keys; behind them shared memory still holds keys of the tile before. "
       "Stop "
       "at min(count, last_key - begin).",
       kernel_with<WrongKernel::stale_tail>},
      {"the mask is applied after the softmax",
       "A hidden key may add nothing to l either: stop at last_key before the maximum and the exponential.",
       kernel_with<WrongKernel::mask_after_softmax>},
      {"the mask is missing", "This query sees keys begin + j < last_key only.",
       kernel_with<WrongKernel::mask_missing>},
      {"l ends as 0 or NaN in every row",
       "Nothing was added to l, or infinity times 0: expf(m_new - m) is infinite while m is -infinity; the "
       "factor is expf(m - m_new).",
       kernel_with<WrongKernel::nothing_summed>},
  };
}

}  // namespace flashsim::lessons

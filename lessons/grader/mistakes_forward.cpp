// WrongForward forward schedules, each with one known mistake, and the hint that names it.
#include <algorithm>
#include <utility>

#include "lessons/grader/rubric.h"

namespace flashsim::lessons {
namespace {

using enum Tensor;

enum class WrongForward {
  no_rescale_of_o,
  no_rescale_of_l,
  no_rescale,
  inverted_correction,
  tile_maximum_only,
  no_maximum,
  scale_missing,
  scale_of_d,
  not_normalised,
  divide_every_step,
  divide_twice,
  missing_tail,
  mask_after_softmax,
  mask_missing,
  top_left,
  diagonal_missing,
  every_tile,
  scores_in_hbm,
  o_in_hbm
};

/// FlashAttention-2's forward pass with one mistake.
template <WrongForward wrong>
void forward_with(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    Blocks visible = wrong == WrongForward::every_tile ? col_blocks(p, t) : visible_cols(p, t, i);
    if (wrong == WrongForward::missing_tail) visible.last = std::min(visible.last, p.seqlen_k / t.block_k);
    if (wrong == WrongForward::top_left && p.causal) {
      // As if query q stood at key q: the bound of the visited blocks is off, the mask is right.
      visible.last = std::min(visible.last, (std::min(i.end(), p.seqlen_k) + t.block_k - 1) / t.block_k);
    }
    if (wrong == WrongForward::diagonal_missing && !visible.empty() &&
        !sees_all(p, i, visible[visible.count() - 1]))
      --visible.last;
    for (Block j : visible) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      const double scale = wrong == WrongForward::scale_missing ? 1
                           : wrong == WrongForward::scale_of_d  ? 1.0 / p.head_dim
                                                                : scale_of(p);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale);
      if (wrong != WrongForward::mask_after_softmax && wrong != WrongForward::mask_missing)
        sm.mask(Sij, i, j);
      Tile m_tile = sm.row_max(Sij);
      Tile m_new = wrong == WrongForward::no_maximum          ? sm.fill(m, i, 0)
                   : wrong == WrongForward::tile_maximum_only ? std::move(m_tile)
                                                              : sm.max(mi, m_tile);
      Tile& Pij = sm.exp(Sij, m_new);
      if (wrong == WrongForward::mask_after_softmax) sm.mask(Pij, i, j);
      Tile correction = wrong == WrongForward::inverted_correction ? sm.exp_difference(m_new, mi)
                                                                   : sm.exp_difference(mi, m_new);
      if (wrong != WrongForward::no_rescale_of_l && wrong != WrongForward::no_rescale)
        sm.scale_rows(li, correction);
      sm.add_row_sum(li, Pij);
      if (wrong != WrongForward::no_rescale_of_o && wrong != WrongForward::no_rescale)
        sm.scale_rows(Oi, correction);
      sm.add_matmul(Oi, Pij, Vj);
      if (wrong == WrongForward::divide_every_step) sm.divide_rows(Oi, li);
      if (wrong == WrongForward::scores_in_hbm) sm.store(P, i, j, Pij);
      if (wrong == WrongForward::o_in_hbm) {
        sm.store(O_sum, i, Oi);
        Oi = sm.load(O_sum, i);
      }
      mi = std::move(m_new);
    }
    if (wrong == WrongForward::divide_twice) sm.divide_rows(Oi, li);
    if (wrong != WrongForward::not_normalised && wrong != WrongForward::divide_every_step)
      sm.divide_rows(Oi, li);
    sm.store(O, i, Oi);
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

bool scores_are_stored(const KernelTraffic& run, const KernelTraffic&) {
  for (int x = 0; x < tensor_count; ++x)
    if (is_score_shaped(static_cast<Tensor>(x)) && run.tensor[x].bytes() > 0) return true;
  return false;
}

bool output_is_loaded(const KernelTraffic& run, const KernelTraffic&) {
  return run.of(O).read.bytes + run.of(O_sum).read.bytes + run.of(l).read.bytes + run.of(m).read.bytes > 0;
}

bool more_keys_are_loaded(const KernelTraffic& run, const KernelTraffic& reference) {
  return run.of(K).read.bytes > reference.of(K).read.bytes;
}

}  // namespace

std::vector<Mistake> step_mistakes() {
  return {
      {"O is not rescaled when the maximum grows",
       "O was summed with the old maximum as l was: what multiplies l must multiply O before P V is added.",
       forward_with<WrongForward::no_rescale_of_o>},
      {"l is not rescaled when the maximum grows",
       "l was summed with the old maximum: multiply it by exp(m_old - m_new) before the new row sum is "
       "added.",
       forward_with<WrongForward::no_rescale_of_l>},
      {"neither l nor O is rescaled when the maximum grows",
       "Everything summed with the old maximum must be multiplied by exp(m_old - m_new); this tile's part is "
       "taken with "
       "the new one.",
       forward_with<WrongForward::no_rescale>},
      {"the correction factor is inverted",
       "The factor is exp(m_old - m_new), at most 1. Some well-known texts print its inverse; put two "
       "numbers in.",
       forward_with<WrongForward::inverted_correction>},
      {"no maximum is subtracted",
       "exp(s) overflows for s above 88 in fp32. exp(s - m) never does, and the quotient is the same.",
       forward_with<WrongForward::no_maximum>},
      {"the maximum is this tile's, not the running one",
       "m_new is the larger of the old maximum and this tile's: sm.max(mi, sm.row_max(Sij)). A smaller one "
       "in a later "
       "tile must not win.",
       forward_with<WrongForward::tile_maximum_only>},
      {"the scores are not scaled", "S = scale Q K^T: pass scale_of(p) to the product.",
       forward_with<WrongForward::scale_missing>},
      {"the scores are scaled by 1 / d instead of 1 / sqrt(d)", "scale_of(p) is 1 / sqrt(head_dim).",
       forward_with<WrongForward::scale_of_d>},
      {"O is divided by l in every step, but never multiplied back",
       "Either O stays unnormalised until the end (FlashAttention 2), or each step undoes the division of "
       "the one before "
       "(FlashAttention 1). Mixed, early tiles are divided several times.",
       forward_with<WrongForward::divide_every_step>},
  };
}

std::vector<Mistake> frame_mistakes() {
  return {
      {"O is never divided by l", "The sum of exp(s - m) V is not yet an average: divide by l at the end.",
       forward_with<WrongForward::not_normalised>},
      {"O is normalised twice", "O is divided by l once; the store needs no second division.",
       forward_with<WrongForward::divide_twice>},
      {"the last, ragged tile is left out",
       "n / B rounded down loses the rows of the last block where B does not divide n. Round up, and let the "
       "last block "
       "be shorter.",
       forward_with<WrongForward::missing_tail>},
  };
}

std::vector<Mistake> causal_mistakes() {
  return {
      {"the mask is applied after the softmax",
       "Hidden scores must be -infinity before the maximum and the exponential: mask S, not P.",
       forward_with<WrongForward::mask_after_softmax>},
      {"the mask is missing",
       "Tiles on the diagonal hold hidden scores too: sm.mask(Sij, i, j) before the row maximum.",
       forward_with<WrongForward::mask_missing>},
      {"the mask is aligned top-left",
       "With n_q != n_k the last query stands at the last key: query q sees keys up to q + seqlen_k - "
       "seqlen_q.",
       forward_with<WrongForward::top_left>},
      {"the tile on the diagonal is skipped",
       "The last tile that a row block sees is partly hidden, but not wholly: round the number of blocks up.",
       forward_with<WrongForward::diagonal_missing>},
      {"tiles that are wholly hidden are loaded",
       "The numbers are right, but tiles above the diagonal are loaded for nothing: bound the loop by what "
       "the block's "
       "last row sees.",
       forward_with<WrongForward::every_tile>, more_keys_are_loaded},
  };
}

std::vector<Mistake> traffic_mistakes() {
  return {
      {"S and P go through HBM",
       "A tile of S is needed once, right after it was made: keep it on chip, turn it into P in place, and "
       "use it.",
       forward_with<WrongForward::scores_in_hbm>, scores_are_stored},
      {"O, l and m go through HBM for every tile of K",
       "Which tensor stays on chip in the outer loop decides what travels in the inner one. With Q_i "
       "outside, O_i, l and "
       "m never leave the chip.",
       forward_with<WrongForward::o_in_hbm>, output_is_loaded},
  };
}

}  // namespace flashsim::lessons

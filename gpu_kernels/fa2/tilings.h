// The tilings that are compiled, one for each padded head_dim and pass: what fa2.cu offers and what the
// kernels are instantiated with. Chosen by timing candidates on an H200.
#pragma once

#include "cpu_reference/problem.h"

namespace flashsim::gpu::fa2 {

/// Forward: see ForwardTiling in forward.cuh; head_dim 256 runs on PairTiling of forward_pairs.cuh.
struct ForwardChoice {
  int head_dim, block_q, block_k, warps, blocks_per_sm;
};
constexpr ForwardChoice forward_choices[] = {
    {64, 128, 128, 4, 2},
    {128, 128, 64, 4, 2},
    {256, 64, 64, 4, 2},
};

/// Backward: see BackwardTiling in backward.cuh. split_s_warps: s_warps where half of the warps compute S and
/// half dP (backward_scores.cuh); 0: they never do. It pays where operand fetches take longest, at head_dim
/// 256 only.
struct BackwardChoice {
  int head_dim, block_q, block_k, warps, s_warps, key_warps, q_warps, blocks_per_sm, split_s_warps;
};
constexpr BackwardChoice backward_choices[] = {
    {64, 64, 64, 4, 2, 2, 2, 3, 0},
    {128, 64, 128, 8, 2, 4, 2, 1, 0},
    {256, 64, 64, 8, 4, 2, 2, 1, 2},
};

/// The choice for a head_dim, padded or not.
constexpr int choice_of(int head_dim) { return head_dim <= 64 ? 0 : head_dim <= 128 ? 1 : 2; }

/// Whether half of the warps compute S and half dP, so that dS takes P as it is stored, in the problem's
/// dtype. With dropout dS needs P from before it, which is not stored.
constexpr bool rounds_p_before_ds(const Problem& p) {
  return backward_choices[choice_of(p.head_dim)].split_s_warps != 0 && !(p.dropout_p > 0);
}

/// K and V of the heads that take turns in a causal forward pass: they then fit in L2 even where it keeps
/// lines on both of its sides, and other tensors beside them. Twice as much would be 0.3 % faster on an H200,
/// at the price of reading K and V again where heads share them (docs/kernels/fa2.md).
constexpr std::int64_t resident_bytes = 16 << 20;

/// Causal, forward: heads whose row blocks take turns. One head after another, the long row blocks of the
/// last head would start late and end alone. For the same reason the heads left over at the end should not be
/// few: of the numbers from what resident_bytes allows to nearly twice that, the one with the fullest last
/// turn.
constexpr int heads_together(const Problem& p) {
  const int group = p.group(), all = p.batch * p.heads_kv, least = heads_within(p, resident_bytes) / group;
  int best = least;
  std::int64_t best_last = (all - 1) % least + 1;
  for (int n = least + 1; n < 2 * least && n <= all; ++n) {
    const std::int64_t last = (all - 1) % n + 1;
    if (last * best > best_last * n) best = n, best_last = last;
  }
  return best * group;
}

/// As callers see them. Causal problems start with the row (forward) or column (backward) blocks that have
/// most work.
constexpr Tiling forward_tiling(const Problem& p) {
  const ForwardChoice& c = forward_choices[choice_of(p.head_dim)];
  Tiling t;
  t.block_q = c.block_q, t.block_k = c.block_k, t.stages = 1, t.warps = c.warps;
  t.order = p.causal ? BlockOrder::last_to_first : BlockOrder::first_to_last;
  t.key_order = BlockOrder::last_to_first;  // masked tiles first
  if (p.causal) t.heads_together = heads_together(p);
  return t;
}
constexpr Tiling backward_tiling(int padded_head_dim) {
  const BackwardChoice& c = backward_choices[choice_of(padded_head_dim)];
  Tiling t;
  t.block_q = c.block_q, t.block_k = c.block_k, t.stages = 2, t.warps = c.warps;
  return t;
}

}  // namespace flashsim::gpu::fa2

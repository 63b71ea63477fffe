// What the FlashAttention paper (Dao et al. 2022) proves about accesses to memory, in elements a head, to
// stand beside the counts of executed schedules. Growth, not counts: constant factors are left out in the
// paper.
#pragma once

#include <algorithm>

#include "cpu_reference/problem.h"

namespace flashsim {

/// Q, K, V and O once: no algorithm accesses less.
inline double compulsory_accesses(const Problem& p) {
  return 2.0 * (double(p.seqlen_q) + p.seqlen_k) * p.head_dim;
}

/// Theorem 2, standard attention: n d + n^2.
inline double theta_standard(const Problem& p) {
  return 0.5 * (double(p.seqlen_q) + p.seqlen_k) * p.head_dim + double(p.seqlen_q) * p.seqlen_k;
}

/// Theorem 2, FlashAttention: n^2 d^2 / M with M elements of SRAM, d <= M <= n d. Proposition 3: no exact
/// algorithm grows slower for all such M.
inline double theta_flash(const Problem& p, double sram_elements) {
  return double(p.seqlen_q) * p.seqlen_k * p.head_dim * p.head_dim / sram_elements;
}

/// Whether that theorem and proposition say something about SRAM of this size: d <= M <= n d.
inline bool theorem_applies(const Problem& p, double sram_elements) {
  return sram_elements >= p.head_dim &&
         sram_elements <= double(std::min(p.seqlen_q, p.seqlen_k)) * p.head_dim;
}

/// Algorithm 1, line 1: B_c = ceil(M / 4d), B_r = min(B_c, d).
inline Tiling paper_blocks(Tiling t, const Problem& p, double sram_elements) {
  const auto rows = static_cast<int>((sram_elements + 4.0 * p.head_dim - 1) / (4.0 * p.head_dim));
  t.block_k = std::clamp(rows, 1, p.seqlen_k);
  t.block_q = std::clamp(std::min(rows, p.head_dim), 1, p.seqlen_q);
  return t;
}

}  // namespace flashsim

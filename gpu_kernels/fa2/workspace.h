// What FA2's backward kernels keep in global memory between them. Host code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_reference/problem.h"

namespace flashsim::gpu::fa2 {

/// The workspace, in this order: the sum of dQ (fp32), D (fp32), a 32-bit flag that asks for a repair and,
/// for a fixed order of summation, the turns (32-bit counters, one for each head and row block, then one for
/// the tickets).
///
/// The sum is laid out in C fragments of 16 x 8 elements, 128 floats each: (batch * heads_q, seqlen_q / 16
/// rounded up, head_dim / 8, lane, 4), so that a warp adds 512 neighbouring bytes with one instruction.
struct BackwardWorkspace {
  std::int64_t heads, sum_floats, d_floats, turns;  ///< elements of each part
  int row_groups, row_blocks;

  BackwardWorkspace(const Problem& p, int block_q, bool deterministic)
      : heads(std::int64_t{p.batch} * p.heads_q),
        row_groups((p.seqlen_q + 15) / 16),
        row_blocks((p.seqlen_q + block_q - 1) / block_q) {
    sum_floats = heads * row_groups * 16 * p.head_dim;
    d_floats = heads * p.seqlen_q;
    turns = deterministic ? heads * row_blocks + 1 : 0;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(4 * (sum_floats + d_floats + 1 + turns)); }
};

}  // namespace flashsim::gpu::fa2

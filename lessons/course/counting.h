// Short forms of what lessons run most.
#pragma once

#include "simulator/executors/traffic.h"
#include "simulator/schedules/schedules.h"

namespace flashsim::course {

/// Blocks as long as the sequences: each operand of a product streams once, as the papers' formulas have it.
inline Tiling whole(const Problem& p) { return {.block_q = p.seqlen_q, .block_k = p.seqlen_k}; }

/// Square tiles, no longer than the sequences.
inline Tiling square(const Problem& p, int block) {
  return {.block_q = block < p.seqlen_q ? block : p.seqlen_q,
          .block_k = block < p.seqlen_k ? block : p.seqlen_k};
}

/// All kernels of a pass, executed and added up.
inline KernelTraffic counted(Schedule schedule, const Problem& p, const Tiling& t) {
  return sum(count_traffic(schedule, p, t));
}

inline Problem heads_of_length(int heads, int n, int d) {
  Problem p;
  p.heads_q = p.heads_kv = heads;
  p.seqlen_q = p.seqlen_k = n;
  p.head_dim = d;
  return p;
}

}  // namespace flashsim::course

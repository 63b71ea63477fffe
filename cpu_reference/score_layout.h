// How S, P, dP and dS lie in memory. A value without dependencies, C++17, shared by the CUDA kernels, by who
// makes room for the matrices, and by the simulator.
//
// Memory is moved in sectors of 32 bytes. If rows of an odd length followed each other without a gap, they
// would begin anywhere within a sector: they could only be moved element by element, neighbouring rows would
// share sectors, and a sector of which a part is written has to be fetched first. So rows are padded to whole
// sectors. What pads them belongs to nobody: kernels write it as they please and never use what they find.
#pragma once

#include "cpu_reference/problem.h"

namespace flashsim {

/// Elements of `element_bytes` (a power of two up to 32) from one row of S, P, dP or dS to the next: seqlen_k
/// rounded up to whole sectors.
constexpr std::int64_t score_pitch(int seqlen_k, int element_bytes) {
  const std::int64_t sector = 32 / element_bytes;
  return (seqlen_k + sector - 1) / sector * sector;
}
constexpr std::int64_t score_pitch(const Problem& p) { return score_pitch(p.seqlen_k, bytes_of(p.dtype)); }

/// Elements of one such matrix over all query heads, with what pads its rows.
constexpr std::int64_t score_elements(const Problem& p) {
  return std::int64_t{p.batch} * p.heads_q * p.seqlen_q * score_pitch(p);
}

}  // namespace flashsim

// What the memory system is asked for where a schedule says "rows of a tensor": the counters' bytes.
#pragma once

#include "simulator/machine/operation.h"

namespace flashsim::l2 {

/// Bytes from one row of `x` to the next in memory: those of its columns, of score-shaped tensors with what
/// pads them to whole sectors (cpu_reference/score_layout.h).
std::int64_t row_bytes_in_memory(Tensor x, const Problem& p);

/// Bytes that an operation's requests take between an SM and L2, averaged over all heads (whose rows begin at
/// different places within a sector). Memory is asked for in sectors of 32 bytes, so they can be more than
/// the elements that the operation names:
///   - a bulk tensor load (Operation::box_rows) counts its box, the rows beyond the tensor's edge included:
///     they arrive as zeros, from L2, and cost no DRAM bytes;
///   - a piece that one instruction of a warp moves counts every sector it touches. A tile's rows are one
///     piece where they follow each other, with one exception: row statistics of warps that split Q leave
///     their registers 8 rows at a time (in accumulators of m16n8 and of wgmma a warp holds 8 rows side by
///     side). Rows of S, P, dP and dS are padded to whole sectors, which count with them;
///   - dQ's fp32 sum lies in groups of 16 rows there, as the accumulators hold it.
/// All of it is the same as the elements' bytes where lengths are multiples of 16 and tiles are whole.
double requested_bytes(const Operation& op, bool written, const Problem& p, const Tiling& t);

}  // namespace flashsim::l2

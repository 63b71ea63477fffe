// What the files of standard attention share: the tile size, which part of a row exists, the row kernels.
#pragma once

#include "cpu_reference/score_layout.h"
#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::standard {

constexpr int kBlock = 128;  ///< rows and columns of a tile of S

/// Shared memory for rows: what a thread block can have on sm_80 and later, less a reserve.
constexpr int kRowBytes = 160 * 1024;

/// Which part of a row of S, P, dP, dS exists: the tiles that some query of its row block sees (own
/// products), or all of it, hidden elements of P and dS being zero (cuBLAS products, which know no mask).
enum class Extent { visible_tiles, whole_rows };

/// P = softmax(S) over visible keys; (batch, heads_q, seqlen_q, score_pitch) of p.dtype. A row that sees
/// nothing is 0, and so is what pads the rows.
void softmax_rows(const Problem& p, Extent extent, const void* scores, void* probabilities, void* stream);

/// dS = P o (dP - rowsum(P o dP)); `gradient` is dP, `out` dS.
void softmax_gradient_rows(const Problem& p, Extent extent, const void* probabilities, const void* gradient,
                           void* out, void* stream);

/// What both forms of standard attention refuse; empty where there is nothing.
std::string fault_of_standard(const Problem& p, const Tiling& t, Pass pass);
Tiling tiling_of_standard(const Problem& p, Pass pass);
/// Backward: dP and dS, each score_elements(p) long, dS at ds_offset elements.
std::size_t workspace_of_standard(const Problem& p, const Tiling& t, Pass pass);

std::int64_t ds_offset(const Problem& p);

Kernel own_products();
Kernel cublas_products();

}  // namespace flashsim::gpu::standard

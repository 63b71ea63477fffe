// Quantisation to e4m3 before the fp8 forward kernel (FlashAttention-3, section 3.3). Host side.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_reference/problem.h"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::fa3 {

/// Where a workspace holds what. Rows are padded with zeros to `dim` columns.
struct Fp8Workspace {
  static constexpr int block =
      128;                ///< rows of Q, and of K and V, that share a scale and are quantised together
  int dim, keys;          ///< padded head_dim (128 or 256); seqlen_k rounded up to 16
  int q_tiles, k_blocks;  ///< per head
  std::int64_t q, k, v;   ///< byte offsets: (heads, seqlen_q, dim), (heads_kv, seqlen_k, dim), V transposed
                          ///< (heads_kv, dim, keys)
  std::int64_t q_scale, k_scale, v_scale;  ///< float: (heads, q_tiles), (heads_kv, k_blocks), (heads_kv)
  std::int64_t maxima, counter;            ///< float per head of Q, K, V; int
  std::int64_t bytes;
};
Fp8Workspace fp8_workspace(const Problem& p);

/// Fills x.workspace from the fp16 tensors x.q, x.k, x.v.
void fp8_quantise(const Problem& p, const Tiling& t, const Tensors& x, void* stream);

}  // namespace flashsim::gpu::fa3

// Inf and NaN in V at keys that a row must not see. Their P is 0, but 0 x Inf is NaN: where a block is masked
// for some rows only, the products spread such a V over all of them. Nothing in the loop prevents it; rows of
// O that come out Inf or NaN are computed once more, from the keys they see and nothing else.
#pragma once

#include "gpu_kernels/fa3/stale_maximum.cuh"

namespace flashsim::gpu::fa3 {

/// Two elements: sum + 0 x. Stays +-0 for as long as every x is finite.
template <class E>
__device__ __forceinline__ uint32_t add_zero_times(uint32_t x, uint32_t sum) {
  if constexpr (std::is_same_v<E, __half>)
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(0));
  else
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(0));
  return sum;
}

/// Computes the 16 rows of O of this warp anew, on the CUDA cores, and stores them. Slow, small, and after
/// all that is fast. reference, inverse: of this thread's two rows, as in forward.cuh.
template <class E, int HeadDim>
__device__ __forceinline__ void redo_rows(const ForwardParams& p, const Place& at,
                                          const float (&reference)[2], const float (&inverse)[2]) {
  const int lane = threadIdx.x % 32, dim = p.head_dim, first = at.row - lane / 4;
#pragma unroll 1
  for (int i = 0; i < min(16, p.seqlen_q - first); ++i) {
    const int row = first + i, from = i % 8 * 4;
    const float m = __shfl_sync(~0u, i < 8 ? reference[0] : reference[1], from);
    const float factor = __shfl_sync(~0u, i < 8 ? inverse[0] : inverse[1], from);
    const E* q = static_cast<const E*>(p.q) + (at.query_row + row) * dim;
    float sum[HeadDim / 32] = {};  // of columns lane, lane + 32, ...
    const int end = min(p.seqlen_k, row + p.end_key);
#pragma unroll 1
    for (int key = max(0, row + p.first_key); key < end; key += 32) {
      const int mine = min(key + lane, end - 1);
      const E* k = static_cast<const E*>(p.k) + (at.key_row + mine) * dim;
      float score = 0.f;
#pragma unroll 1
      for (int c = 0; c < dim; ++c) score += float(q[c]) * float(k[c]);
      const float weight = exp2_approx(score * p.scale_log2 - (m == -INFINITY ? 0.f : m));
#pragma unroll 1
      for (int j = 0; j < min(32, end - key); ++j) {
        const E* v = static_cast<const E*>(p.v) + (at.key_row + key + j) * dim + lane;
        const float w = __shfl_sync(~0u, weight, j);
#pragma unroll
        for (int c = 0; c < HeadDim / 32; ++c)
          if (32 * c + lane < dim) sum[c] += w * float(v[32 * c]);
      }
    }
    E* o = static_cast<E*>(p.o) + (at.query_row + row) * dim + lane;
#pragma unroll
    for (int c = 0; c < HeadDim / 32; ++c)
      if (32 * c + lane < dim) o[32 * c] = E(sum[c] * factor);
  }
}

}  // namespace flashsim::gpu::fa3

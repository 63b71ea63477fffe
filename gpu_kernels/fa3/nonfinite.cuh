// Inf and NaN in V at keys that a row must not see. Their P is 0, but 0 x Inf is NaN: where a block is masked
// for some rows only, the products spread such a V over all of them. Nothing in the loop prevents it; rows of
// O that come out Inf or NaN are computed once more, from the keys they see and nothing else.
#pragma once

#include "gpu_kernels/fa3/stale_maximum.cuh"

namespace flashsim::gpu::fa3 {

/// Computes the 16 rows of O of this warp anew, on the CUDA cores, and stores them. Slow, small, and after
/// all that is fast. reference, inverse: of this thread's two rows, as in forward.cuh.
template <class E>
__device__ __forceinline__ void redo_rows(const ForwardParams& p, const Place& at,
                                          const float (&reference)[2], const float (&inverse)[2]) {
  const int lane = threadIdx.x % 32, first = at.row - lane / 4;
#pragma unroll 1
  for (int i = 0; i < min(16, p.seqlen_q - first); ++i) {
    const float m = __shfl_sync(~0u, i < 8 ? reference[0] : reference[1], i % 8 * 4);
    const float factor = __shfl_sync(~0u, i < 8 ? inverse[0] : inverse[1], i % 8 * 4);
    const int64_t query = at.query_row + first + i;
    const int end = min(p.seqlen_k, first + i + p.end_offset);
#pragma unroll 1
    for (int column = lane; column - lane < p.head_dim; column += 32) {
      const E* v = static_cast<const E*>(p.v) + at.key_row * p.head_dim + min(column, p.head_dim - 1);
      float sum = 0.f;
#pragma unroll 1
      for (int key = max(0, first + i + p.first_offset); key < end; key += 32) {
        const float score = row_dot<E>(p, query, at.key_row + min(key + lane, end - 1)) * p.scale_log2;
        const float weight = exp2_approx(score - (m == -INFINITY ? 0.f : m));
#pragma unroll 1
        for (int j = 0; j < min(32, end - key); ++j)
          sum += __shfl_sync(~0u, weight, j) * float(v[int64_t{key + j} * p.head_dim]);
      }
      if (column < p.head_dim) static_cast<E*>(p.o)[query * p.head_dim + column] = E(sum * factor);
    }
  }
}

}  // namespace flashsim::gpu::fa3

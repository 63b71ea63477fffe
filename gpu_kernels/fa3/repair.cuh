// What happens rarely, on the CUDA cores: P relative to a reference that was too old (softmax.cuh), and Inf
// or NaN in V behind the mask: P is 0 there, but 0 x Inf is NaN, and spreads in blocks masked for some rows
// only. Rows of O that come out Inf or NaN are computed once more, from the keys they see alone.
#pragma once

#include "gpu_kernels/fa3/schedule.cuh"
#include "gpu_kernels/fa3/softmax.cuh"

namespace flashsim::gpu::fa3 {

/// Where this thread's rows lie in the tensors: what computing scores anew needs.
struct Place {
  int64_t query_row, key_row;  ///< of the head's first query and key, over all heads
  int row;                     ///< this thread's first row, within the head
};
/// q . k from global memory; in sums of 8, and of those, as exact as the tensor cores (e4m3 needs no such
/// care).
template <class E>
__device__ __forceinline__ float row_dot(const ForwardParams& p, int64_t query_row, int64_t key_row) {
  constexpr int kPart = sizeof(E) == 2 ? 8 : 1;
  const E* q = static_cast<const E*>(p.q) + query_row * p.head_dim;
  const E* k = static_cast<const E*>(p.k) + key_row * p.head_dim;
  float sum = 0.f;
#pragma unroll 1
  for (int c = 0; c < p.head_dim; c += kPart) {
    float part = 0.f;
#pragma unroll
    for (int i = 0; i < kPart; ++i) part += float(q[c + i]) * float(k[c + i]);
    sum += part;
  }
  return sum;
}

/// Raises the reference of rows whose P is too large. s: P, sum: its sum over this thread's columns; factor:
/// what O must be multiplied by. As long as nothing came near overflow it is a power of two, which rounds
/// nothing (in e4m3: it makes the largest P, which may be all that matters, exact); else scores are computed
/// anew.
template <class E, int Headroom, int N>
__device__ __forceinline__ void repair(Softmax& softmax, float (&s)[N], float (&sum)[2], float (&factor)[2],
                                       float scale_log2, const ForwardParams& p, const Place& at,
                                       int first_key) {
  if (__all_sync(~0u, sum[0] + sum[1] <= 0x1p100f)) {
    for (int r = 0; r < 2; ++r) {
      float top = float(1 << Headroom);
#pragma unroll
      for (int j = 0; j < N / 4; ++j) top = fmaxf(top, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
      top = quad_max(top);
      const float growth =
          sizeof(E) == 2 ? float((__float_as_int(top) >> 23) - 127) : __log2f(top) - Headroom;
      factor[r] = exp2_approx(-growth);
      softmax.offset[r] = softmax.reference[r] += growth;
      softmax.row_sum[r] *= factor[r];
      sum[r] *= factor[r];
    }
    scale_rows(s, factor);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int row = at.row + i / 2 % 2 * 8, key = first_key + 8 * (i / 4) + threadIdx.x % 4 * 2 + i % 2;
      s[i] = row < p.seqlen_q && key < p.seqlen_k ? row_dot<E>(p, at.query_row + row, at.key_row + key) : 0.f;
    }
    softmax.update_max<Headroom>(s, factor, scale_log2);
    sum[0] = sum[1] = 0.f;
    softmax.exponentials<0, N / 4, false>(s, sum, scale_log2);
    expect_first_score(softmax);
  }
}

/// Computes the 16 rows of O of this warp anew and stores them. reference, inverse: of this thread's two
/// rows, as in forward.cuh.
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

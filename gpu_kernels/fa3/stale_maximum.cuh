// Softmax that does not wait for the maximum; why that is exact, and why it pays: docs/kernels/fa3.md.
//
// A block's exponentials start with the reference of the block before, and their sum over this thread's
// columns, which is needed anyway, tells whether that was good enough: each entry of P is at most the sum.
// While it stays below 2^14, P fits fp16 (65504) and bf16, and O needs no factor. (In e4m3 the bound is 448,
// and the vote is on P as it was packed.) Otherwise the block is repaired before anything has used it.
//
// Too large a reference would lose small P; but it never exceeds a score that was seen, as in online softmax.
// A row's first score needs no special case: until there is one, offset is NaN, so are P and its sum, and the
// vote fails. (Masked blocks, which alone can be a tile's first, use online softmax.)
#pragma once

#include "gpu_kernels/fa3/schedule.cuh"
#include "gpu_kernels/fa3/softmax.cuh"

namespace flashsim::gpu::fa3 {

constexpr float kLargestP = 16384.f;  ///< 2^14
constexpr float kExactP = 0x1p100f;   ///< sums below have not overflowed, and leave room for O

/// Where this thread's rows lie in the tensors: what computing scores anew needs.
struct Place {
  int64_t query_row, key_row;  ///< of the head's first query and key, over all heads
  int row;                     ///< this thread's first row, within the head
};

/// q . k from global memory, for rare paths: slow, small, and as exact as the tensor cores (sums of 8, then
/// of those).
template <class E>
__device__ __forceinline__ float row_dot(const ForwardParams& p, int64_t query_row, int64_t key_row) {
  const E* q = static_cast<const E*>(p.q) + query_row * p.head_dim;
  const E* k = static_cast<const E*>(p.k) + key_row * p.head_dim;
  float sum = 0.f;
#pragma unroll 1
  for (int c = 0; c < p.head_dim; c += 8) {
    float part = 0.f;
#pragma unroll
    for (int i = 0; i < 8; ++i) part += float(q[c + i]) * float(k[c + i]);
    sum += part;
  }
  return sum;
}

/// Rows that have seen no score: the next clean block will find out (see above).
__device__ __forceinline__ void expect_first_score(Softmax& softmax) {
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (softmax.reference[r] == -INFINITY) softmax.offset[r] = NAN;
}

/// Whether this warp's P, taken relative to an old reference, can be used as it is; warp-uniform. sum: of P
/// in fp32; packed: P as the tensor cores get it. In e4m3 what is too large has become 448 or NaN, the two
/// bytes whose top bit 2 more would set.
template <class E, int M>
__device__ __forceinline__ bool fits(const float (&sum)[2], const uint32_t (&packed)[M]) {
  if constexpr (sizeof(E) == 2) return __all_sync(~0u, sum[0] + sum[1] <= kLargestP);  // false for NaN
  uint32_t top = 0;
#pragma unroll
  for (int i = 0; i < M; ++i) top |= packed[i] + 0x02020202u;
  return __all_sync(~0u, (top & 0x80808080u) == 0);
}

/// Raises the reference of rows whose P is too large. s: P, sum: its sum over this thread's columns; factor:
/// what O must be multiplied by. While P is exact in fp32, by a power of two, which rounds nothing (in e4m3
/// such that the largest P, which may be all that matters of a row, becomes exact); else from the scores
/// anew.
template <class E, int Headroom, int N>
__device__ __forceinline__ void repair(Softmax& softmax, float (&s)[N], float (&sum)[2], float (&factor)[2],
                                       float scale_log2, const ForwardParams& p, const Place& at,
                                       int first_key) {
  if (__all_sync(~0u, sum[0] + sum[1] <= kExactP)) {
#pragma unroll
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

}  // namespace flashsim::gpu::fa3

// Softmax that does not wait for the maximum; why that is exact, and why it pays: docs/kernels/fa3.md.
//
// A block's exponentials start with the reference of the block before, and their sum over this thread's
// columns, which is needed anyway, tells whether that was good enough: each entry of P is at most the sum.
// While it stays below 2^14, P fits fp16 (65504) and bf16, and O needs no factor. One warp vote a step
// replaces two shuffles, 64 comparisons and the rescaling. Where the vote fails, the block is repaired before
// anything has used it:
// - below 2^100, P is still exact in fp32: the reference rises by the exponent of the row's largest P, and
//   P, the sums and O are multiplied by that power of two, which rounds nothing;
// - above, P may be infinite: S is computed anew and goes through ordinary online softmax.
// Too large a reference would lose small P; but it never exceeds a score that was seen, as in online softmax.
//
// A row's first score needs no special case in the loop: until there is one, offset is NaN, so are P and its
// sum, and the vote fails. (Rows whose first block is all masked do not come here: masked blocks use online
// softmax, and only they can be first.)
#pragma once

#include "gpu_kernels/fa3/schedule.cuh"
#include "gpu_kernels/fa3/softmax.cuh"

namespace flashsim::gpu::fa3 {

constexpr float kLargestP = 16384.f;  ///< 2^14
constexpr float kExactP = 0x1p100f;   ///< sums below have not overflowed, and leave room for O

/// Where this thread's rows lie in the tensors: what a repair needs to compute scores anew.
struct Place {
  int64_t query_row, key_row;  ///< of the head's first query and key, over all heads
  int row;                     ///< this thread's first row, within the head
};

/// The scores of this warp's 16 rows with the keys of one block once more, from global memory, by mma.sync
/// (whose accumulators lie as wgmma's). What lies outside the tensors counts as zero.
template <class E, int N>
__device__ __forceinline__ void recompute_scores(float (&s)[N], const ForwardParams& p, const Place& at,
                                                 int first_key) {
  const int g = threadIdx.x / 4 % 8, t = threadIdx.x % 4, dim = p.head_dim;
  const E* q = static_cast<const E*>(p.q) + (at.query_row + at.row) * dim + 2 * t;
  const E* k = static_cast<const E*>(p.k) + (at.key_row + first_key + g) * dim + 2 * t;
  const auto load = [](const E* x, bool inside) {  // volatile: not to be moved out of the rare path
    uint32_t r = 0;
    if (inside) asm volatile("ld.global.u32 %0, [%1];" : "=r"(r) : "l"(x));
    return r;
  };
  const bool row0 = at.row < p.seqlen_q, row8 = at.row + 8 < p.seqlen_q;
#pragma unroll
  for (int j = 0; j < N / 4; ++j) {
    float d[4] = {0.f, 0.f, 0.f, 0.f};
    const bool key = first_key + 8 * j + g < p.seqlen_k;
#pragma unroll 1
    for (int c = 0; c < dim; c += 16) {
      const bool half = c + 8 < dim;  // head_dim may end after 8 of these 16 columns
      const E *q0 = q + c, *q8 = q0 + 8 * dim, *kj = k + int64_t{8 * j} * dim + c;
      const uint32_t a[4] = {load(q0, row0), load(q8, row8), load(q0 + 8, half && row0),
                             load(q8 + 8, half && row8)};
      mma_m16n8k16<E>(d, a, load(kj, key), load(kj + 8, half && key));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) s[4 * j + i] = d[i];
  }
}

/// Rows that have seen no score: the next clean block will find out (see above).
__device__ __forceinline__ void expect_first_score(Softmax& softmax) {
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (softmax.reference[r] == -INFINITY) softmax.offset[r] = NAN;
}

/// Whether this warp's P, taken relative to an old reference, can be used as it is; warp-uniform.
__device__ __forceinline__ bool fits(const float (&sum)[2]) {
  return __all_sync(~0u, sum[0] + sum[1] <= kLargestP);  // false for NaN
}

/// Raises the reference of rows whose P is too large. s: P, sum: its sum over this thread's columns.
/// factor: what O must be multiplied by.
template <class E, int N>
__device__ __forceinline__ void repair(Softmax& softmax, float (&s)[N], float (&sum)[2], float (&factor)[2],
                                       const ForwardParams& p, const Place& at, int first_key) {
  if (__all_sync(~0u, sum[0] + sum[1] <= kExactP)) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = 1.f;
#pragma unroll
      for (int j = 0; j < N / 4; ++j) top = fmaxf(top, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
      const int exponent = (__float_as_int(quad_max(top)) >> 23) - 127;
      factor[r] = __int_as_float((127 - exponent) << 23);
      softmax.offset[r] = softmax.reference[r] += exponent;
      softmax.row_sum[r] *= factor[r];
      sum[r] *= factor[r];
    }
    scale_rows(s, factor);
  } else {
    recompute_scores<E>(s, p, at, first_key);
    softmax.update_max<0>(s, factor, p.scale_log2);
    sum[0] = sum[1] = 0.f;
    softmax.exponentials<0, N / 4, false>(s, sum, p.scale_log2);
    expect_first_score(softmax);
  }
}

}  // namespace flashsim::gpu::fa3

// Online softmax on a warpgroup's accumulators. Of a 64 x N wgmma result warp w owns rows 16 w ...; lane
// 4 g + q holds, of rows g and g + 8, s[4 j + 2 r + c] of row g + 8 r, column 8 j + 2 q + c.
//
// The stale maximum (why it is exact, and pays: docs/kernels/fa3.md): a block's exponentials start with the
// reference of the block before. Their sum over this thread's columns, which no P exceeds, tells whether that
// was good enough: below 2^14, P fits fp16 and bf16; else the block is repaired (repair.cuh) before use.
// Until a row has a score, offset is NaN, so are P and its sum, and the vote fails. Masked blocks: online
// softmax.
#pragma once

#include <cmath>

#include "gpu_kernels/common/tile.cuh"

namespace flashsim::gpu::fa3 {

template <int N>
__device__ __forceinline__ void scale_rows(float (&o)[N], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < N; ++i) o[i] *= factor[(i >> 1) & 1];
}
/// The statistics of this thread's two rows, in the log2 domain: P = 2^(s scale_log2 - offset).
struct Softmax {
  float row_sum[2] = {0.f, 0.f};                ///< of this thread's columns only, until the end
  float reference[2] = {-INFINITY, -INFINITY};  ///< of P: a maximum seen so far, or less; -inf before that
  float offset[2];  ///< the same, but finite (or NaN, see above) where that is -inf
  /// Raises the reference to the maximum of a new block of scores; P then lies in [0, 2^Headroom]. rescale:
  /// what everything summed so far must be multiplied by. A row that has seen nothing yet keeps -inf.
  template <int Headroom, int N>
  __device__ __forceinline__ void update_max(const float (&s)[N], float (&rescale)[2], float scale_log2) {
    for (int r = 0; r < 2; ++r) {
      float even = s[2 * r], odd = s[2 * r + 1];
#pragma unroll
      for (int j = 1; j < N / 4; ++j) {
        even = fmaxf(even, s[4 * j + 2 * r]);
        odd = fmaxf(odd, s[4 * j + 2 * r + 1]);
      }
      const float m = fmaxf(reference[r], quad_max(fmaxf(even, odd)) * scale_log2 - Headroom);
      offset[r] = m == -INFINITY ? 0.f : m;
      rescale[r] = exp2_approx(reference[r] - offset[r]);
      reference[r] = m;
      row_sum[r] *= rescale[r];
    }
  }

  /// s := 2^(s scale_log2 - offset) for the 8-column blocks From <= j < To, added to sum. Pinned: after what
  /// stands before it in the program, where the compiler would start earlier.
  template <int From, int To, bool Pinned, int N>
  __device__ __forceinline__ void exponentials(float (&s)[N], float (&sum)[2], float scale_log2) const {
    for (int r = 0; r < 2; ++r) {
      float odd = 0.f;
#pragma unroll
      for (int j = From; j < To; ++j) {
        for (int c = 0; c < 2; ++c) {
          float& x = s[4 * j + 2 * r + c];
          x = x * scale_log2 - offset[r];
          if (Pinned)
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
          else
            x = exp2_approx(x);
        }
        sum[r] += s[4 * j + 2 * r];
        odd += s[4 * j + 2 * r + 1];
      }
      sum[r] += odd;
    }
  }
};

/// P in the inputs' precision: accumulators of two neighbouring 8-column blocks are the A operand of a 16-key
/// step as they stand. (e4m3: of four blocks, a 32-key step, for keys in fp8_quantise's order.)
template <class E, int N, int M>
__device__ __forceinline__ void convert(uint32_t (&p)[M], const float (&s)[N]) {
#pragma unroll
  for (int i = 0; i < M; ++i) {
    const float* x = sizeof(E) == 2 ? s + 2 * i : s + 16 * (i / 4) + 8 * (i / 2 % 2) + 2 * (i % 2);
    if constexpr (sizeof(E) == 2)
      p[i] = pack<E>(x[0], x[1]);
    else
      p[i] = pack_e4m3(x[0], x[1], x[4], x[5]);
  }
}

/// Scores where hidden(column, r) get -inf; column: after this thread's first, r: which of its two rows.
template <int N, class Hidden>
__device__ __forceinline__ void mask_where(float (&s)[N], const Hidden& hidden) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (hidden(8 * (i / 4) + (i & 1), (i >> 1) & 1)) s[i] = -INFINITY;
}
/// Rows that have seen no score: the next clean block will find out (see above).
__device__ __forceinline__ void expect_first_score(Softmax& softmax) {
  for (int r = 0; r < 2; ++r)
    if (softmax.reference[r] == -INFINITY) softmax.offset[r] = NAN;
}
/// Whether this warp's P, relative to an old reference, can be used: by the sum of P, or by P as packed for
/// the tensor cores: in e4m3 what is too large has become 448 or NaN, where 2 more set the top bit.
template <class E, bool BySum, int M>
__device__ __forceinline__ bool fits(const float (&sum)[2], const uint32_t (&packed)[M]) {
  if constexpr (sizeof(E) == 2) return __all_sync(~0u, sum[0] + sum[1] <= 16384.f);  // false for NaN
  if constexpr (BySum) return __all_sync(~0u, sum[0] <= 448.f && sum[1] <= 448.f);
  uint32_t top = 0;
#pragma unroll
  for (int i = 0; i < M; ++i) top |= packed[i] + 0x02020202u;
  return __all_sync(~0u, (top & 0x80808080u) == 0);
}
/// Holds what follows until these sums are there: by a load that depends on them and never happens.
__device__ __forceinline__ void come_first(const float (&sum)[2], uint32_t shared) {
  asm volatile(
      "{.reg .pred p; .reg .b32 x; setp.gt.f32 p, %0, 0f7F000000; @p ld.volatile.shared.u32 x, [%1];}" ::"f"(
          fmaxf(sum[0], sum[1])),
      "r"(shared)
      : "memory");
}

}  // namespace flashsim::gpu::fa3

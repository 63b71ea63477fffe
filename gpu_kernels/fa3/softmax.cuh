// Online softmax on a warpgroup's accumulators. Thread layout of a 64 x N wgmma result: warp w of the
// warpgroup owns rows 16 w ...; lane 4 g + q holds of rows g and g + 8 the columns 8 j + 2 q and 8 j + 2 q +
// 1, as s[4 j + 2 r + c] for row g + 8 r, column 8 j + 2 q + c.
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
  float row_sum[2];    ///< of this thread's columns only, until the end
  float reference[2];  ///< what P is relative to: a maximum seen so far, or less; -inf before the first score
  float offset[2];     ///< the same, but finite (or NaN, see stale_maximum.cuh) where that is -inf

  __device__ __forceinline__ void reset() {
    reference[0] = reference[1] = -INFINITY;
    row_sum[0] = row_sum[1] = 0.f;
  }

  /// Raises the reference to the maximum of a new block of scores. rescale: what everything summed so far
  /// must be multiplied by. A row that has seen nothing yet keeps -inf, and gets no -inf - -inf.
  /// P then lies in [0, 2^Headroom].
  template <int Headroom, int N>
  __device__ __forceinline__ void update_max(const float (&s)[N], float (&rescale)[2], float scale_log2) {
#pragma unroll
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
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float odd = 0.f;
#pragma unroll
      for (int j = From; j < To; ++j) {
#pragma unroll
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

/// P in the inputs' precision: the accumulators of two neighbouring 8-column blocks are the A operand of one
/// 16-key step as they stand, so nothing moves between threads. (e4m3: of four blocks and 32 keys, for keys
/// in fp8_quantise's order.)
template <class E, int N, int M>
__device__ __forceinline__ void convert(uint32_t (&p)[M], const float (&s)[N]) {
#pragma unroll
  for (int i = 0; i < M; ++i) {
    if constexpr (sizeof(E) == 2) {
      p[i] = pack<E>(s[2 * i], s[2 * i + 1]);
    } else {
      const float* x = s + 16 * (i / 4) + 8 * (i / 2 % 2) + 2 * (i % 2);
      p[i] = pack_e4m3(x[0], x[1], x[4], x[5]);
    }
  }
}

/// Scores where hidden(column, r) get -inf; column: relative to this thread's first, r: which of its two
/// rows.
template <int N, class Hidden>
__device__ __forceinline__ void mask_where(float (&s)[N], const Hidden& hidden) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (hidden(8 * (i / 4) + (i & 1), (i >> 1) & 1)) s[i] = -INFINITY;
}

}  // namespace flashsim::gpu::fa3

// Online softmax on a warpgroup's accumulators. Thread layout of a 64 x N wgmma result: warp w of the
// warpgroup owns rows 16 w ...; lane 4 g + q holds of rows g and g + 8 the columns 8 j + 2 q and 8 j + 2 q +
// 1, as s[4 j + 2 r + c] for row g + 8 r, column 8 j + 2 q + c.
#pragma once

#include <cmath>

#include "gpu_kernels/common/ptx.cuh"

namespace flashsim::gpu::fa3 {

/// 2^(x scale - offset) by a cubic on the FMA pipes (relative error below 1e-4), to take load off the exp
/// units. The exponent is clamped to [-125, 127]. Idea: FlashAttention-4 (section on software exponentials).
__device__ __forceinline__ float exp2_polynomial(float x, float scale, float offset) {
  const float t = __saturatef(fmaf(x, scale * (1.f / 252), 125.f / 252 - offset * (1.f / 252)));
  const float shifted = fmaf(t, 252.f, 12582912.f - 125.f);  // 1.5 * 2^23: the integer lands in the mantissa
  const float f = fmaf(t, 252.f, (12582912.f - 125.f) - shifted);  // in [-1/2, 1/2]
  const float p = fmaf(fmaf(fmaf(0.05517167f, f, 0.24261112f), f, 0.69326099f), f, 0.99992807f);
  return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

/// The statistics of this thread's two rows, in the log2 domain: P = 2^(s scale_log2 - offset).
struct Softmax {
  float row_sum[2];    ///< of this thread's columns only, until the end
  float reference[2];  ///< what P is relative to: a maximum seen so far, or less; -inf before the first key
  float offset[2];     ///< the same, but 0 for -inf

  __device__ __forceinline__ void reset() {
    reference[0] = reference[1] = -INFINITY;
    row_sum[0] = row_sum[1] = 0.f;
  }

  /// Raises the reference to the maximum of a new block of scores. rescale: what everything summed so far
  /// must be multiplied by. Masked: rows may have seen nothing yet (then no -inf - -inf).
  template <bool Masked, int N>
  __device__ __forceinline__ void update_max(const float (&s)[N], float (&rescale)[2], float scale_log2) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float even = s[2 * r], odd = s[2 * r + 1];
#pragma unroll
      for (int j = 1; j < N / 4; ++j) {
        even = fmaxf(even, s[4 * j + 2 * r]);
        odd = fmaxf(odd, s[4 * j + 2 * r + 1]);
      }
      const float m = fmaxf(reference[r], quad_max(fmaxf(even, odd)) * scale_log2);
      offset[r] = Masked && m == -INFINITY ? 0.f : m;
      rescale[r] = exp2_approx(reference[r] - offset[r]);
      reference[r] = m;
      row_sum[r] *= rescale[r];
    }
  }

  /// s := 2^(s * scale_log2 - offset) for the 8-column blocks From <= j < To, added to sum. Of every eight of
  /// these blocks, `Polynomial` go to the FMA pipes.
  template <int From, int To, int Polynomial, bool InPlace = false, int N>
  __device__ __forceinline__ void exponentials(float (&s)[N], float (&sum)[2], float scale_log2) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float odd = 0.f;
#pragma unroll
      for (int j = From; j < To; ++j) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& x = s[4 * j + 2 * r + c];
          if ((j * Polynomial) % 8 < Polynomial) {
            x = exp2_polynomial(x, scale_log2, offset[r]);
          } else {
            x = x * scale_log2 - offset[r];
            if (InPlace)
              asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
            else
              x = exp2_approx(x);
          }
        }
        sum[r] += s[4 * j + 2 * r];
        odd += s[4 * j + 2 * r + 1];
      }
      sum[r] += odd;
    }
  }
};

/// P in the inputs' precision: the accumulators of two neighbouring 8-column blocks are the A operand of one
/// 16-key step as they stand, so nothing moves between threads.
template <class E, int N>
__device__ __forceinline__ void convert(uint32_t (&p)[N / 2], const float (&s)[N]) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) p[i] = pack<E>(s[2 * i], s[2 * i + 1]);
}

template <int N>
__device__ __forceinline__ void scale_rows(float (&o)[N], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < N; ++i) o[i] *= factor[(i >> 1) & 1];
}

/// Columns outside [begin, end) of each row get -inf; both relative to this thread's first column.
template <int N>
__device__ __forceinline__ void mask_end(float (&s)[N], const int (&end)[2]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (8 * (i / 4) + (i & 1) >= end[(i >> 1) & 1]) s[i] = -INFINITY;
}
template <int N>
__device__ __forceinline__ void mask_begin(float (&s)[N], const int (&begin)[2]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (8 * (i / 4) + (i & 1) < begin[(i >> 1) & 1]) s[i] = -INFINITY;
}

}  // namespace flashsim::gpu::fa3

// Online softmax on rows in registers (Dao 2023, Algorithm 1, lines 8 to 15): what both forward kernels do
// with S, P and O. A warp holds 16 M rows as C fragments: lane 4 g + t has, of rows 16 i + g (r = 0) and
// 16 i + 8 + g (r = 1), columns 8 n + 2 t and 8 n + 2 t + 1, as x[i][n][2 r] and x[i][n][2 r + 1].
#pragma once

#include <math_constants.h>

#include "gpu_kernels/common/dropout.cuh"
#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/common/tile.cuh"

namespace flashsim::gpu::fa2 {

/// The maximum may grow by a factor 2^rescale_threshold in exp(S) before O and l are rescaled to it. P then
/// reaches 2^8 = 256, far from fp16's limit, with the same relative precision; the division by l undoes it.
constexpr float rescale_threshold = 8.0f;

/// S := -inf where the mask hides it. `row`: the lane's first row, in its head; `key`: the first column.
template <int M, int N>
__device__ __forceinline__ void mask_scores(float (&score)[M][N][4], const Shape& s, int row, int key,
                                            int t) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = row + 16 * i + 8 * r;
      const int begin = s.first_key(query) - key - 2 * t, end = s.end_key(query) - key - 2 * t;
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (8 * n + e < begin || 8 * n + e >= end) score[i][n][2 * r + e] = -CUDART_INF_F;
    }
}

/// Largest score of each of the lane's rows, in its columns.
template <int M, int N>
__device__ __forceinline__ void lane_maxima(float (&largest)[M][2], const float (&score)[M][N][4]) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float x = fmaxf(score[i][0][2 * r], score[i][0][2 * r + 1]);
#pragma unroll
      for (int n = 1; n < N; ++n) x = fmaxf(x, fmaxf(score[i][n][2 * r], score[i][n][2 * r + 1]));
      largest[i][r] = x;
    }
}

/// Whether one of the warp's rows grows beyond the threshold, `largest` being what lane_maxima found. No lane
/// needs to know of the other three of its row for that: the row grows where one of its lanes says so.
template <int M>
__device__ __forceinline__ bool warp_grows(const float (&m)[M][2], const float (&largest)[M][2],
                                           float scale_log2) {
  bool grows = false;
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) grows |= (largest[i][r] - m[i][r]) * scale_log2 > rescale_threshold;
  return __any_sync(0xffffffffu, grows);
}

/// m_new := the larger of m and of what lane_maxima found in the row's lanes.
template <int M>
__device__ __forceinline__ void new_maximum(float (&m_new)[M][2], const float (&m)[M][2],
                                            const float (&largest)[M][2]) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) m_new[i][r] = fmaxf(m[i][r], quad_max(largest[i][r]));
}

/// What sums of exponentials to the maximum m are multiplied by to be such to m_new.
__device__ __forceinline__ float correction_of(float m, float m_new, float scale_log2) {
  return exp2_approx((m - (m_new == -CUDART_INF_F ? 0.0f : m_new)) * scale_log2);
}

/// Rows to the maximum m_new, which were to m.
template <int M, int C>
__device__ __forceinline__ void scale_rows(float (&x)[M][C][4], const float (&m)[M][2],
                                           const float (&m_new)[M][2], float scale_log2) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float correction = correction_of(m[i][r], m_new[i][r], scale_log2);
#pragma unroll
      for (int c = 0; c < C; ++c) {
        x[i][c][2 * r] *= correction;
        x[i][c][2 * r + 1] *= correction;
      }
    }
}

/// m := m_new, and O and l to it (lines 9 and 10). A row that has seen nothing keeps -inf.
template <int M, int C>
__device__ __forceinline__ void rescale(float (&o)[M][C][4], float (&l)[M][2], float (&m)[M][2],
                                        const float (&m_new)[M][2], float scale_log2) {
  scale_rows(o, m, m_new, scale_log2);
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[i][r] *= correction_of(m[i][r], m_new[i][r], scale_log2);
      m[i][r] = m_new[i][r];
    }
}

/// S := P = exp(S - m), l += the lane's part of its row sums.
template <int M, int N>
__device__ __forceinline__ void exponentials(float (&score)[M][N][4], float (&l)[M][2],
                                             const float (&m)[M][2], float scale_log2) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float shift = m[i][r] == -CUDART_INF_F ? 0.0f : m[i][r] * scale_log2;
#pragma unroll
      for (int n = 0; n < N; ++n) {
        float& x = score[i][n][2 * r];
        float& y = score[i][n][2 * r + 1];
        x = exp2_approx(fmaf(x, scale_log2, -shift));
        y = exp2_approx(fmaf(y, scale_log2, -shift));
        l[i][r] += x + y;
      }
    }
}

/// Which elements of P dropout keeps, four bits for each 8-column block.
template <int M, int N>
struct KeptElements {
  static constexpr int drawn = N < 8 ? N : 8;
  uint32_t bits[M][(N + 7) / 8];

  /// `head` counts over the batch; `row`: the warp's first row, in its head; `key`: the first column.
  __device__ __forceinline__ void draw(const Shape& s, uint32_t head, int row, int key) {
    int lane;  // read again rather than kept: on sm_80 this is what saves spilled registers
    asm volatile("mov.u32 %0, %%laneid;\n" : "=r"(lane));
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int n = 0; n < N; n += 8)
        bits[i][n / 8] = dropout_kept<drawn>(s.dropout_seed, s.dropout_threshold, head,
                                             row + 16 * i + lane / 4, key + 8 * n, lane);
  }
  __device__ __forceinline__ void apply(float (&p)[M][N][4]) const {
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (!is_kept(bits[i][n / 8], n % 8, e)) p[i][n][e] = 0;
  }
};

/// One row of O over its whole sum (line 12); sum 0: the row sees nothing, or only scores of -inf.
template <int M, int C>
__device__ __forceinline__ void divide_row(float (&o)[M][C][4], int i, int r, float sum, float keep_scale) {
  const float factor = sum == 0.0f ? 0.0f : keep_scale / sum;
#pragma unroll
  for (int c = 0; c < C; ++c) {
    o[i][c][2 * r] *= factor;
    o[i][c][2 * r + 1] *= factor;
  }
}
__device__ __forceinline__ float lse_of(float m, float sum, float scale) {
  return sum == 0.0f ? -CUDART_INF_F : m * scale + logf(sum);
}

}  // namespace flashsim::gpu::fa2

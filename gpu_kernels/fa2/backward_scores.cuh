// The first half of a step of the backward pass: P and dS of a visible tile into shared memory, where other
// warps take them as operands.
//
//   together  every warp computes S and dP of the same elements, and P and dS from them.
//   apart     half of the warps compute S and P, the other half dP and dS, each of twice as many elements.
//             A warp then uses what it fetches twice as often: at head_dim 256, where a step is bound by
//             fetches, 140 fragments a warp instead of 168. The price is a barrier, because dS waits for P
//             (the half that has P adds to dV meanwhile), and P rounded to T in dS = P o (dP - D).
#pragma once

#include "gpu_kernels/common/dropout.cuh"
#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/common/tile.cuh"

namespace flashsim::gpu::fa2 {

/// A compiled tiling. The three groups of products are shared among the warps in grids of their own:
/// S and dP: S_WARPS along the rows of Q, the others along keys; dK and dV: KEY_WARPS along keys, the others
/// along head_dim; dQ: Q_WARPS along the rows of Q, the others along head_dim. SCORES_APART: see above; the
/// grid of S and dP is then one of half of the warps, twice.
template <int HEAD_DIM, int BLOCK_Q, int BLOCK_K, int WARPS, int S_WARPS, int KEY_WARPS, int Q_WARPS,
          int BLOCKS_PER_SM, bool SCORES_APART = false>
struct BackwardTiling {
  static constexpr int head_dim = HEAD_DIM, block_q = BLOCK_Q, block_k = BLOCK_K, warps = WARPS;
  static constexpr int threads = 32 * WARPS, blocks_per_sm = BLOCKS_PER_SM;
  static constexpr bool scores_apart = SCORES_APART;
  static constexpr int score_warps = SCORES_APART ? WARPS / 2 : WARPS;
  static constexpr int s_rows = BLOCK_Q / S_WARPS, s_cols = BLOCK_K / (score_warps / S_WARPS);
  static constexpr int kv_rows = BLOCK_K / KEY_WARPS, kv_cols = HEAD_DIM / (WARPS / KEY_WARPS);
  static constexpr int q_rows = BLOCK_Q / Q_WARPS, q_cols = HEAD_DIM / (WARPS / Q_WARPS);
  static constexpr int s_warps = S_WARPS, key_warps = KEY_WARPS, q_warps = Q_WARPS;
  // Shared memory: K, V; two stages of Q, dO; P, dS; two stages of LSE, D.
  static constexpr int k_bytes = BLOCK_K * HEAD_DIM * 2, q_bytes = BLOCK_Q * HEAD_DIM * 2;
  static constexpr int p_bytes = BLOCK_Q * BLOCK_K * 2;
  // LSE and D of a row block begin anywhere within a sector. They are copied from its beginning, 16 bytes a
  // lane, by whole groups of eight lanes: a pair of lanes across two sectors asks for both twice, an
  // incomplete group for 128 bytes.
  static constexpr int row_lanes = (BLOCK_Q / 4 + 2 + 7) / 8 * 8;
  static constexpr int row_floats = 4 * row_lanes, row_bytes = 4 * row_floats;
  static constexpr int shared_bytes = 2 * k_bytes + 4 * q_bytes + 2 * p_bytes + 4 * row_bytes;
  static_assert(s_rows % 16 == 0 && s_cols % 16 == 0 && kv_rows % 16 == 0 && kv_cols % 16 == 0 &&
                    q_rows % 16 == 0 && q_cols % 16 == 0,
                "warps share whole 16 x 16 blocks");
};

/// What a step works on.
struct BackwardStep {
  uint32_t q, d_o, k, v, p, ds;  ///< tiles
  const float* statistics;       ///< LSE of the step's rows; D follows 2 row_floats later
  int place;                     ///< added to a row's index in `statistics`
  int head, row, rows, key;  ///< query head, counted over the batch; first row, rows that exist, first key
};

/// Where a warp's part of S (or dP) starts in the tile, and the lane in it.
template <class Compiled>
struct ScorePart {
  int row, col, lane, g, t;
  __device__ ScorePart(unsigned warp, int lane) : lane(lane), g(lane >> 2), t(lane & 3) {
    const int part = Compiled::scores_apart ? warp % Compiled::score_warps : warp;
    row = part % Compiled::s_warps * Compiled::s_rows;
    col = part / Compiled::s_warps * Compiled::s_cols;
  }
};

/// Calls visit(i, n, e, hidden, only_key) for each of a lane's elements of a tile that the mask cuts. Masked
/// elements count for nothing, whatever their scores and gradients are. The only key of a row has P = 1,
/// hence dS = 0 exactly; dP - D would leave what the two sums round differently.
template <class Compiled, class Visit>
__device__ __forceinline__ void visit_cut(const Shape& s, const BackwardStep& step,
                                          const ScorePart<Compiled>& part, const Visit& visit) {
#pragma unroll
  for (int i = 0; i < Compiled::s_rows / 16; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = step.row + part.row + 16 * i + 8 * r + part.g;
      const int begin = s.first_key(query) - step.key - part.col - 2 * part.t;
      const int end = s.end_key(query) - step.key - part.col - 2 * part.t;
      const bool only_key = end - begin == 1;
#pragma unroll
      for (int n = 0; n < Compiled::s_cols / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) visit(i, n, 2 * r + e, 8 * n + e < begin || 8 * n + e >= end, only_key);
    }
}

/// x += A B^T over head_dim for the warp's part: A's rows of Q or dO, B's of K or V.
template <class T, class Compiled, int M, int N>
__device__ __forceinline__ void multiply_part(float (&x)[M][N][4], uint32_t rows, uint32_t keys,
                                              const ScorePart<Compiled>& part) {
  constexpr int D = Compiled::head_dim;
  const auto a_at = rows_first<D>(rows, part.row, part.lane);
  const auto b_at = columns_first<D>(keys, part.col, part.lane);
  multiply<T, D / 16>(
      x, [&](auto& a, int i, int c) { ldmatrix_x4(a, a_at(16 * i, 2 * c)); },
      [&](auto& b, int n, int c) { ldmatrix_x4(b, b_at(8 * n, 2 * c)); });
}

/// P and dS of a step to shared memory; the caller's barrier follows.
template <class T, bool DROPOUT, class Compiled>
__device__ __forceinline__ void scores_together(const Shape& s, const BackwardStep& step,
                                                const ScorePart<Compiled>& part) {
  constexpr int M = Compiled::s_rows / 16, N = Compiled::s_cols / 8;
  constexpr int drawn = N < 8 ? N : 8;  // 8-column blocks, four bits each
  uint32_t kept[(M * N + 7) / 8] = {};
  if (DROPOUT) {
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int n = 0; n < N; n += drawn)
        kept[(i * N + n) / 8] |=
            dropout_kept<drawn>(s.dropout_seed, s.dropout_threshold, step.head,
                                step.row + part.row + 16 * i + part.g, step.key + part.col + 8 * n, part.lane)
            << 4 * ((i * N + n) % 8);
  }
  const auto keeps = [&](int i, int n, int e) { return is_kept(kept[(i * N + n) / 8], (i * N + n) % 8, e); };
  float prob[M][N][4] = {}, ds[M][N][4] = {};
  multiply_part<T>(prob, step.q, step.k, part);
  multiply_part<T>(ds, step.d_o, step.v, part);
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int at = step.place + part.row + 16 * i + 8 * r + part.g;
      const float d = step.statistics[2 * Compiled::row_floats + at];
      const float lse = step.statistics[at] * 1.4426950408889634f;
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; ++e) {
          prob[i][n][e] = exp2_approx(fmaf(prob[i][n][e], s.scale_log2, -lse));
          if (DROPOUT) ds[i][n][e] = keeps(i, n, e) ? ds[i][n][e] * s.keep_scale : 0;
          ds[i][n][e] = prob[i][n][e] * (ds[i][n][e] - d);
          if (DROPOUT && !keeps(i, n, e)) prob[i][n][e] = 0;
        }
    }
  if (s.first_key(step.row + step.rows - 1) > step.key || s.end_key(step.row) < step.key + Compiled::block_k)
    visit_cut(s, step, part, [&](int i, int n, int e, bool hidden, bool only_key) {
      if (hidden) prob[i][n][e] = 0;
      if (hidden || only_key) ds[i][n][e] = 0;
    });
  const auto p_at = rows_first<Compiled::block_k>(step.p, part.row, part.lane, part.col / 8);
  const auto ds_at = rows_first<Compiled::block_k>(step.ds, part.row, part.lane, part.col / 8);
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      put_blocks<T>(p_at(16 * i, n), prob[i][n], prob[i][n + 1]);
      put_blocks<T>(ds_at(16 * i, n), ds[i][n], ds[i][n + 1]);
    }
}

/// The same with P and dS of different warps. Without dropout only, whose P and dS need each other's factors.
/// `add_dv` adds P^T dO to dV for the calling warp; the warps that compute P have called it at the return,
/// the others have not. Two barriers: the caller's, and one inside.
template <class T, class Compiled, class AddDv>
__device__ __forceinline__ void scores_apart(const Shape& s, const BackwardStep& step,
                                             const ScorePart<Compiled>& part, bool computes_ds,
                                             const AddDv& add_dv) {
  constexpr int M = Compiled::s_rows / 16, N = Compiled::s_cols / 8;
  const bool cut =
      s.first_key(step.row + step.rows - 1) > step.key || s.end_key(step.row) < step.key + Compiled::block_k;
  float x[M][N][4] = {};  // S, then P; or dP, then dS
  multiply_part<T>(x, computes_ds ? step.d_o : step.q, computes_ds ? step.v : step.k, part);
  const auto put = [&](uint32_t tile) {
    const auto at = rows_first<Compiled::block_k>(tile, part.row, part.lane, part.col / 8);
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int n = 0; n < N; n += 2) put_blocks<T>(at(16 * i, n), x[i][n], x[i][n + 1]);
  };
  if (!computes_ds) {
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float lse = step.statistics[part.row + 16 * i + 8 * r + part.g] * 1.4426950408889634f;
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int e = 2 * r; e < 2 * r + 2; ++e)
            x[i][n][e] = exp2_approx(fmaf(x[i][n][e], s.scale_log2, -lse));
      }
    if (cut)
      visit_cut(s, step, part, [&](int i, int n, int e, bool hidden, bool) {
        if (hidden) x[i][n][e] = 0;
      });
    put(step.p);
  }
  __syncthreads();  // P is here
  if (computes_ds) {
    const auto p_at = rows_first<Compiled::block_k>(step.p, part.row, part.lane, part.col / 8);
#pragma unroll
    for (int i = 0; i < M; ++i) {
      const float d[2] = {step.statistics[2 * Compiled::row_floats + part.row + 16 * i + part.g],
                          step.statistics[2 * Compiled::row_floats + part.row + 16 * i + 8 + part.g]};
#pragma unroll
      for (int n = 0; n < N; n += 2) {
        uint32_t packed[4];
        ldmatrix_x4(packed, p_at(16 * i, n));
#pragma unroll
        for (int h = 0; h < 4; ++h) {
          const float2 prob = unpack<T>(packed[h]);
          float* const y = &x[i][n + h / 2][2 * (h % 2)];
          y[0] = prob.x * (y[0] - d[h % 2]);
          y[1] = prob.y * (y[1] - d[h % 2]);
        }
      }
    }
    if (cut)
      visit_cut(s, step, part, [&](int i, int n, int e, bool hidden, bool only_key) {
        if (hidden || only_key) x[i][n][e] = 0;
      });
    put(step.ds);
  } else {
    add_dv();
  }
}

}  // namespace flashsim::gpu::fa2

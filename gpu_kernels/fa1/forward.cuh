// FlashAttention (Dao et al. 2022), Algorithm 1, and Algorithm 2 for dropout: K and V outside, Q inside, one
// thread block per (batch, K/V head). O, l and m are read and written through memory at every visit of a row
// block, and O is divided by l every time. Line numbers are the paper's.
//
// Requested bytes per query head, u_q = e n_q d, T_c = ceil(n_k / B_c), no mask (with one: only visible tiles
// count, row block by row block; K and V blocks that no row sees are not read):
//   initialise  t n_q d + 8 n_q written (t: bytes of a temporary, 4 for fp32, else e; + 4 n_q for LSE if
//   given) forward     2 e n_k d per K/V head read; per column block u_q (Q), t n_q d (O), 8 n_q (l, m) read,
//   and t n_q d (O),
//               8 n_q (l, m) written; the last visit of a row block writes O as e n_q d instead of t n_q d
//               (+ 4 n_q LSE if given)
//
// What still hurts: everything that FA2 changed. One thread block a head leaves SMs idle when batch * heads
// is small; every visit of a row block moves O twice; the warps split the keys, so row maxima, row sums and P
// meet in shared memory, with four barriers a tile.
#pragma once

#include "gpu_kernels/fa1/fa1.cuh"

namespace flashsim::gpu::fa1 {

template <class T>
struct ForwardArguments {
  const T *q, *k, *v;
  Temporary<T> o;
  float *l, *m, *lse;  ///< lse may be null
};

template <class T, int kDim>
struct ForwardShared {
  static constexpr int cols = forward_cols(kDim);
  T k[cols * kDim], v[cols * kDim], q[kRows * kDim], p[kRows * cols];
  float maximum[kWarps][kRows], sum[kWarps][kRows];  ///< of each warp's keys
  float old_factor[kRows], tile_factor[kRows];
};

template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, 1) forward_kernel(Shape s, ForwardArguments<T> x) {
  constexpr int kCols = forward_cols(kDim);
  using Scores = ScoreGrid<kCols>;
  using Result = ResultGrid<kRows, kDim>;
  extern __shared__ uint4 shared_memory[];
  auto& shared = *reinterpret_cast<ForwardShared<T, kDim>*>(shared_memory);
  const std::int64_t head_kv = blockIdx.x;
  const int lane = threadIdx.x % 32;
  const FragmentPosition s_at = Scores::position(), o_at = Result::position();

  for (int k0 = 0; k0 < s.seqlen_k; k0 += kCols) {  // line 5
    const int cols = min(kCols, s.seqlen_k - k0);
    const BlockRange visible = visible_rows(s, k0, k0 + cols, kRows);
    const int row_blocks = max(0, visible.end - visible.first), steps = s.group * row_blocks;
    const auto first_row = [&](int step) { return (visible.first + step % row_blocks) * kRows; };
    const auto head_row = [&](int step) { return (head_kv * s.group + step / row_blocks) * s.seqlen_q; };
    const auto load_q = [&](int step) {  // line 8
      const int q0 = first_row(step);
      copy_tile_async<kRows, kDim, kThreads>(shared_address(shared.q),
                                             x.q + (head_row(step) + q0) * s.head_dim, s.seqlen_q - q0,
                                             s.head_dim, threadIdx.x);
    };
    if (steps == 0) continue;  // no row sees this block
    __syncthreads();           // the last column block's K and V have been used
    const std::int64_t kv = (head_kv * s.seqlen_k + k0) * s.head_dim;
    copy_tile_async<kCols, kDim, kThreads>(shared_address(shared.k), x.k + kv, cols, s.head_dim,
                                           threadIdx.x);  // line 6
    copy_tile_async<kCols, kDim, kThreads>(shared_address(shared.v), x.v + kv, cols, s.head_dim, threadIdx.x);
    load_q(0);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    // Inf or NaN in V must not reach rows that the mask keeps away from it.
    const bool careful =
        !sees_all(s, 0, s.seqlen_q, k0, k0 + cols) && tile_is_nonfinite<kCols, kDim, kThreads>(shared.v);

    for (int step = 0; step < steps; ++step) {  // line 7
      const int q0 = first_row(step), rows = min(kRows, s.seqlen_q - q0);
      const std::int64_t head0 = head_row(step), row0 = head0 + q0;
      const bool partly_hidden = !sees_all(s, q0, q0 + rows, k0, k0 + kCols);
      cp_async_wait<0>();
      __syncthreads();  // Q has arrived; what the last step left in shared memory has been read
      float o_old[1][Result::part][4];
      load_temporary(o_old, x.o, row0, rows, s.head_dim, o_at);
      float l_old = 0, m_old = -INFINITY;  // row threadIdx.x, threads below kRows
      if (threadIdx.x < rows)
        l_old = load_cg(x.l + row0 + threadIdx.x), m_old = load_cg(x.m + row0 + threadIdx.x);

      float p[Scores::mt][Scores::nt][4];  // line 9
      clear(p);
      warp_gemm<T, Stored::by_outer, kDim, Stored::by_outer, kDim, kDim>(p, shared.q, shared.k, s_at);
#pragma unroll
      for (int mt = 0; mt < Scores::mt; ++mt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = s_at.row(mt, 2 * half), first = s.first_key(q0 + row), end = s.end_key(q0 + row);
          float maximum = -INFINITY;
#pragma unroll
          for (int nt = 0; nt < Scores::nt; ++nt)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; ++e) {
              const int key = k0 + s_at.col(nt, e);
              p[mt][nt][e] =
                  partly_hidden && (key < first || key >= end) ? -INFINITY : p[mt][nt][e] * s.scale;
              maximum = fmaxf(maximum, p[mt][nt][e]);
            }
          maximum = quad_max(maximum);
          if (lane % 4 == 0) shared.maximum[Scores::column()][row] = maximum;
        }
      __syncthreads();
      if (step + 1 < steps) load_q(step + 1);  // Q has been used; the next one arrives meanwhile
      cp_async_commit();

#pragma unroll
      for (int mt = 0; mt < Scores::mt; ++mt) {  // line 10: P~ and its row sums
        uint32_t kept = 0xffffffffu;
        if (s.dropout_threshold != 0)
          kept = dropout_kept<Scores::nt>(s.dropout_seed, s.dropout_threshold,
                                          static_cast<uint32_t>(head0 / s.seqlen_q), q0 + s_at.row(mt, 0),
                                          k0 + s_at.col0, lane);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = s_at.row(mt, 2 * half);
          float maximum = -INFINITY, sum = 0;
#pragma unroll
          for (int w = 0; w < Scores::across; ++w) maximum = fmaxf(maximum, shared.maximum[w][row]);
          if (maximum == -INFINITY) maximum = 0;
#pragma unroll
          for (int nt = 0; nt < Scores::nt; ++nt)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; ++e) {
              const float probability = exp2_approx((p[mt][nt][e] - maximum) * kLog2e);
              sum += probability;
              p[mt][nt][e] = s.dropout_threshold == 0 ? probability
                             : is_kept(kept, nt, e)   ? probability * s.keep_scale
                                                      : 0;
            }
          sum = quad_sum(sum);
          if (lane % 4 == 0) shared.sum[Scores::column()][row] = sum;
        }
      }
      put_fragments<kCols>(shared.p, p, s_at);
      __syncthreads();

      if (threadIdx.x < kRows) {  // line 11, and line 13 for l and m
        float m_tile = -INFINITY, l_tile = 0;
#pragma unroll
        for (int w = 0; w < Scores::across; ++w) {
          m_tile = fmaxf(m_tile, shared.maximum[w][threadIdx.x]);
          l_tile += shared.sum[w][threadIdx.x];
        }
        const float m_new = fmaxf(m_old, m_tile), shown = m_new == -INFINITY ? 0 : m_new;
        const float old_factor = l_old * exp2_approx((m_old - shown) * kLog2e);
        const float tile_factor = exp2_approx((m_tile - shown) * kLog2e);
        const float l_new = old_factor + tile_factor * l_tile;
        const float inverse = l_new == 0 ? 0 : __fdividef(1, l_new);
        shared.old_factor[threadIdx.x] = old_factor * inverse;
        shared.tile_factor[threadIdx.x] = tile_factor * inverse;
        if (threadIdx.x < rows) {
          x.l[row0 + threadIdx.x] = l_new;
          x.m[row0 + threadIdx.x] = m_new;
        }
        if (threadIdx.x < rows && x.lse != nullptr &&
            k0 / kCols == visible_cols(s, q0, q0 + rows, kCols).end - 1)
          x.lse[row0 + threadIdx.x] = l_new == 0 ? -INFINITY : m_new + __logf(l_new);
      }
      const bool last = k0 / kCols == visible_cols(s, q0, q0 + rows, kCols).end - 1;
#pragma unroll 1
      for (int part = 0; part < Result::nt; part += Result::part) {  // line 12
        const FragmentPosition at{o_at.row0, o_at.col0 + part * 8};
        if (part > 0) load_temporary(o_old, x.o, row0, rows, s.head_dim, at);
        float o[1][Result::part][4];
        clear(o);
        if (careful && partly_hidden)
          warp_gemm_visible<T, Stored::by_outer, kCols, kDim>(
              o, shared.p, shared.v, at, cols, [&](int row, int key) { return sees(s, q0 + row, k0 + key); });
        else
          warp_gemm<T, Stored::by_outer, kCols, Stored::by_inner, kDim, kCols>(o, shared.p, shared.v, at);
        if (part == 0) __syncthreads();  // the factors of line 11
#pragma unroll
        for (int nt = 0; nt < Result::part; ++nt)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = at.row(0, e);
            o[0][nt][e] = o_old[0][nt][e] * shared.old_factor[row] + o[0][nt][e] * shared.tile_factor[row];
          }
        store_temporary(x.o, last, o, row0, rows, s.head_dim, at);
      }
    }
  }
}

}  // namespace flashsim::gpu::fa1

// FlashAttention (Dao et al. 2022), Algorithm 4: K, V, dK, dV outside, one thread block per (batch, K/V
// head). S and P are computed again from Q, K, l, m; the dropout mask is drawn again; D is computed from O
// and dO at every visit; dQ is read and written through memory at every visit. No other thread block touches
// the head's dQ, so nothing is atomic and the result is the same bit for bit in every run. Line numbers are
// the paper's.
//
// Requested bytes per query head, u_q = e n_q d, T_c = ceil(n_k / B_c), no mask (with one: only visible tiles
// count, row block by row block; K and V blocks that no row sees are not read, their dK and dV
// are written as zeros):
//   initialise  t n_q d written (t: bytes of a temporary, 4 for fp32, else e)
//   backward    2 e n_k d per K/V head read, 2 e n_k d written (dK, dV); per column block 3 u_q (Q, O, dO), t
//   n_q d (dQ),
//               8 n_q (l, m) read and t n_q d (dQ) written; the last visit of a row block writes dQ as e n_q
//               d
//
// What still hurts: as in the forward pass; and all tiles of a step wait for one another.
#pragma once

#include "gpu_kernels/fa1/fa1.cuh"

namespace flashsim::gpu::fa1 {

template <class T>
struct BackwardArguments {
  const T *q, *k, *v, *o, *d_o;
  const float *l, *m;
  Temporary<T> dq;
  T *dk, *dv;
};

template <class T, int kDim>
struct BackwardShared {
  static constexpr int cols = backward_cols(kDim);
  T k[cols * kDim], v[cols * kDim], q[kRows * kDim], d_o[kRows * kDim], p[kRows * cols], ds[kRows * cols];
  float l[kRows], m[kRows], d[kRows];
};

/// Writes `count` zeros, a multiple of 8.
template <class T>
__device__ __forceinline__ void store_zeros(T* target, int count) {
  for (int i = static_cast<int>(threadIdx.x) * 8; i < count; i += kThreads * 8)
    *reinterpret_cast<uint4*>(target + i) = make_uint4(0, 0, 0, 0);
}

template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, 1) backward_kernel(Shape s, BackwardArguments<T> x) {
  constexpr int kCols = backward_cols(kDim);
  using Scores = ScoreGrid<kCols>;
  using RowResult = ResultGrid<kRows, kDim>;
  using ColResult = ResultGrid<kCols, kDim>;
  extern __shared__ uint4 shared_memory[];
  auto& shared = *reinterpret_cast<BackwardShared<T, kDim>*>(shared_memory);
  const std::int64_t head_kv = blockIdx.x;
  FragmentPosition s_at = Scores::position(), dq_at = RowResult::position(), dk_at = ColResult::position();

  for (int k0 = 0; k0 < s.seqlen_k; k0 += kCols) {  // line 6
    const int cols = min(kCols, s.seqlen_k - k0);
    const BlockRange visible = visible_rows(s, k0, k0 + cols, kRows);
    const std::int64_t kv = (head_kv * s.seqlen_k + k0) * s.head_dim;
    if (visible.empty()) {
      store_zeros(x.dk + kv, cols * s.head_dim);
      store_zeros(x.dv + kv, cols * s.head_dim);
      continue;
    }
    __syncthreads();  // dK and dV of the last column block have left shared memory
    copy_tile_async<kCols, kDim, kThreads>(shared_address(shared.k), x.k + kv, cols, s.head_dim,
                                           threadIdx.x);  // line 7
    copy_tile_async<kCols, kDim, kThreads>(shared_address(shared.v), x.v + kv, cols, s.head_dim, threadIdx.x);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    const bool k_careful =
        !sees_all(s, 0, s.seqlen_q, k0, k0 + cols) && tile_is_nonfinite<kCols, kDim, kThreads>(shared.k);
    float dk[ColResult::mt][ColResult::nt][4], dv[ColResult::mt][ColResult::nt][4];  // line 8
    clear(dk);
    clear(dv);

    for (int step = 0; step < s.group * (visible.end - visible.first); ++step) {  // line 9
      const int row_blocks = visible.end - visible.first;
      const std::int64_t head = head_kv * s.group + step / row_blocks;
      const int q0 = (visible.first + step % row_blocks) * kRows, rows = min(kRows, s.seqlen_q - q0);
      const std::int64_t row0 = head * s.seqlen_q + q0, element0 = row0 * s.head_dim;
      const bool partly_hidden = !sees_all(s, q0, q0 + rows, k0, k0 + kCols);
      int thread = threadIdx.x;
      // dK and dV leave few registers for what the compiler would keep of addresses from step to step: it
      // must not know that they are the same.
      asm volatile("" : "+r"(thread));
      const int lane = s_at.lane = dq_at.lane = dk_at.lane = thread % 32;
      __syncthreads();  // the last step's tiles have been used
      copy_tile_async<kRows, kDim, kThreads>(shared_address(shared.q), x.q + element0, rows, s.head_dim,
                                             thread);
      copy_tile_async<kRows, kDim, kThreads>(shared_address(shared.d_o), x.d_o + element0, rows, s.head_dim,
                                             thread);
      cp_async_commit();  // line 10
      if (thread < kRows) {
        const bool exists = thread < rows;
        shared.l[thread] = exists ? load_cg(x.l + row0 + thread) : 0;
        shared.m[thread] = exists ? load_cg(x.m + row0 + thread) : -INFINITY;
      }
      // D = rowsum(dO o O), line 19: four threads a row; O never enters shared memory.
      const int d_row = thread / 4;
      uint4 o_part[kDim / 32];
#pragma unroll
      for (int i = 0; i < kDim / 32; ++i) {
        const int chunk = i * 4 + lane % 4;
        o_part[i] = make_uint4(0, 0, 0, 0);
        if (d_row < rows && chunk * 8 < s.head_dim)
          o_part[i] = load_cg(
              reinterpret_cast<const uint4*>(x.o + element0 + std::int64_t{d_row} * s.head_dim + chunk * 8));
      }
      cp_async_wait<0>();
      __syncthreads();
      float d = 0;
#pragma unroll
      for (int i = 0; i < kDim / 32; ++i) {
        const uint4 g =
            *reinterpret_cast<const uint4*>(&element<kDim>(shared.d_o, d_row, (i * 4 + lane % 4) * 8));
        const uint32_t a[4] = {o_part[i].x, o_part[i].y, o_part[i].z, o_part[i].w},
                       b[4] = {g.x, g.y, g.z, g.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const float2 o2 = unpack<T>(a[w]), g2 = unpack<T>(b[w]);
          d += o2.x * g2.x + o2.y * g2.y;
        }
      }
      d = quad_sum(d);
      if (lane % 4 == 0) shared.d[d_row] = d;

      float p[Scores::mt][Scores::nt][4], ds[Scores::mt][Scores::nt][4];
      clear(p);
      clear(ds);
      warp_gemm<T, Stored::by_outer, kDim, Stored::by_outer, kDim, kDim>(p, shared.q, shared.k,
                                                                         s_at);  // line 11
      warp_gemm<T, Stored::by_outer, kDim, Stored::by_outer, kDim, kDim>(ds, shared.d_o, shared.v,
                                                                         s_at);  // line 17
      __syncthreads();                                                           // D
#pragma unroll
      for (int mt = 0; mt < Scores::mt; ++mt) {
        uint32_t kept = 0xffffffffu;
        if (s.dropout_threshold != 0) {  // line 14
          // At head_dim 128 on sm_80, reading the lane again rather than keeping it saves spilled registers;
          // at 64 it would cost some.
          int lane_now = lane;
          if (kDim > 64) asm volatile("mov.u32 %0, %%laneid;\n" : "=r"(lane_now));
          kept = dropout_kept<Scores::nt>(s.dropout_seed, s.dropout_threshold, static_cast<uint32_t>(head),
                                          q0 + s_at.row(mt, 0), k0 + s_at.col0, lane_now);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = s_at.row(mt, 2 * half), first = s.first_key(q0 + row), end = s.end_key(q0 + row);
          const float m = shared.m[row], l = shared.l[row], row_d = shared.d[row];
          const float inverse = l == 0 ? 0 : __fdividef(1, l), base = m == -INFINITY ? 0 : m;
          // The only key of a row has P = 1, hence dS = 0; dP - D would leave what the two sums round
          // differently. A factor, so that NaN stays NaN.
          const float share = end - first == 1 ? 0 : 1;
#pragma unroll
          for (int nt = 0; nt < Scores::nt; ++nt)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; ++e) {
              const int key = k0 + s_at.col(nt, e);
              const bool shown = row < rows && (!partly_hidden || (key >= first && key < end));
              const float probability =
                  shown ? exp2_approx((p[mt][nt][e] * s.scale - base) * kLog2e) * inverse : 0;  // line 13
              const float weight = s.dropout_threshold == 0 ? 1 : is_kept(kept, nt, e) ? s.keep_scale : 0;
              p[mt][nt][e] = probability * weight;  // line 15
              ds[mt][nt][e] =
                  shown ? share * probability * (ds[mt][nt][e] * weight - row_d) : 0;  // lines 18, 20
            }
        }
      }
      put_fragments<kCols>(shared.p, p, s_at);
      put_fragments<kCols>(shared.ds, ds, s_at);
      __syncthreads();

      const bool do_careful = partly_hidden && tile_is_nonfinite<kRows, kDim, kThreads>(shared.d_o);
      const bool q_careful = partly_hidden && tile_is_nonfinite<kRows, kDim, kThreads>(shared.q);
      const auto key_sees_row = [&](int key, int row) { return key < cols && sees(s, q0 + row, k0 + key); };
      if (do_careful)  // line 16
        warp_gemm_visible<T, Stored::by_inner, kCols, kDim>(dv, shared.p, shared.d_o, dk_at, rows,
                                                            key_sees_row);
      else
        warp_gemm<T, Stored::by_inner, kCols, Stored::by_inner, kDim, kRows>(dv, shared.p, shared.d_o, dk_at);
      const bool last = k0 / kCols == visible_cols(s, q0, q0 + rows, kCols).end - 1;
#pragma unroll 1
      for (int part = 0; part < RowResult::nt; part += RowResult::part) {  // line 21
        const FragmentPosition at{dq_at.row0, dq_at.col0 + part * 8, lane};
        float dq[1][RowResult::part][4];
        clear(dq);
        if (k_careful && partly_hidden)
          warp_gemm_visible<T, Stored::by_outer, kCols, kDim>(
              dq, shared.ds, shared.k, at, cols,
              [&](int row, int key) { return row < rows && sees(s, q0 + row, k0 + key); });
        else
          warp_gemm<T, Stored::by_outer, kCols, Stored::by_inner, kDim, kCols>(dq, shared.ds, shared.k, at);
        float dq_old[1][RowResult::part][4];
        load_temporary(dq_old, x.dq, row0, rows, s.head_dim, at);
#pragma unroll
        for (int nt = 0; nt < RowResult::part; ++nt)
#pragma unroll
          for (int e = 0; e < 4; ++e) dq[0][nt][e] = dq_old[0][nt][e] + s.scale * dq[0][nt][e];
        store_temporary(x.dq, last, dq, row0, rows, s.head_dim, at);
      }
      if (q_careful)  // line 22
        warp_gemm_visible<T, Stored::by_inner, kCols, kDim>(dk, shared.ds, shared.q, dk_at, rows,
                                                            key_sees_row);
      else
        warp_gemm<T, Stored::by_inner, kCols, Stored::by_inner, kDim, kRows>(dk, shared.ds, shared.q, dk_at);
    }
    __syncthreads();  // line 24, by way of K's and V's room
    put_fragments<kDim>(shared.k, dk, dk_at, s.scale);
    put_fragments<kDim>(shared.v, dv, dk_at);
    __syncthreads();
    store_tile<kCols, kDim, kThreads>(x.dk + kv, reinterpret_cast<const unsigned char*>(shared.k), cols,
                                      s.head_dim, threadIdx.x);
    store_tile<kCols, kDim, kThreads>(x.dv + kv, reinterpret_cast<const unsigned char*>(shared.v), cols,
                                      s.head_dim, threadIdx.x);
  }
}

}  // namespace flashsim::gpu::fa1

// FlashAttention-2 forward for head_dim 256: pairs of warps share 32 rows.
//
// At this head_dim 16 rows of O fill half of a warp's registers, and with so few rows a warp fetches 72 KiB
// from shared memory for a 64-key tile, more than tensor cores take time for (see forward.cuh, which this is
// a variation of). Here two warps own 32 rows. Each computes S for half of the tile's keys and O for half of
// the columns, so that what K and V give is used twice as often: 54 KiB for as many products. For that,
// both need all of P, which passes through shared memory, and the same maximum.
//
// One step of a pair: S | do scores grow beyond the maximum? (the barrier that waits for V tells) | P of its
// own keys to shared memory | barrier of the pair | O += P V for its own columns.
#pragma once

#include "gpu_kernels/fa2/forward.cuh"

namespace flashsim::gpu::fa2 {

/// BLOCK_K keys a tile, one K and one V buffer as with ForwardTiling's STAGES 1.
template <int HEAD_DIM, int BLOCK_Q, int BLOCK_K, int BLOCKS_PER_SM>
struct PairTiling {
  static_assert(HEAD_DIM == 256, "a warp's half of O fits its registers, and pays, at head_dim 256");
  static constexpr int head_dim = HEAD_DIM, block_q = BLOCK_Q, block_k = BLOCK_K,
                       blocks_per_sm = BLOCKS_PER_SM;
  static constexpr int pair_rows = 32, warps = 2 * BLOCK_Q / pair_rows, threads = 32 * warps;
  static constexpr int tile_bytes = (BLOCK_Q + 2 * BLOCK_K) * head_dim * 2;
  static constexpr int p_bytes = BLOCK_Q * BLOCK_K * 2;
  static constexpr int shared_bytes = tile_bytes + p_bytes + 2 * BLOCK_Q * 4;
  static_assert(BLOCK_Q % pair_rows == 0 && BLOCK_K % 64 == 0, "");
};

/// Waits for the other warp of a pair, and makes what both wrote to shared memory visible to both.
__device__ __forceinline__ void pair_barrier(int pair) {
  asm volatile("bar.sync %0, 64;\n" ::"r"(pair + 1) : "memory");  // 0 is the thread block's
}

template <class T, class Compiled, bool DROPOUT>
__global__ void __launch_bounds__(Compiled::threads, Compiled::blocks_per_sm)
    forward_pairs_kernel(const ForwardParameters<T> p) {
  constexpr int D = Compiled::head_dim, BQ = Compiled::block_q, BK = Compiled::block_k;
  constexpr int threads = Compiled::threads, R = Compiled::pair_rows, M = R / 16;
  constexpr int keys = BK / 2, N = keys / 8;  // this warp's keys of S, in 8-column blocks
  constexpr int cols = D / 2, C = cols / 8;   // this warp's columns of O, in 8-column blocks
  extern __shared__ __align__(128) unsigned char shared[];

  const Shape& s = p.shape;
  const int thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4;
  const int pair = thread / 64, half = thread / 32 % 2, pair_row = pair * R;
  const RowBlock<Compiled> block(s, p.row_blocks, p.last_to_first);
  const int64_t first_row = s.query_row(block.batch, block.head) + block.row;
  const int64_t first_key = s.key_row(block.batch, block.head / s.group);
  const T* k = p.k + first_key * s.head_dim;
  const T* v = p.v + first_key * s.head_dim;

  const uint32_t q_tile = shared_address(shared), k_tile = q_tile + BQ * D * 2;
  const uint32_t v_tile = k_tile + BK * D * 2, p_tile = v_tile + BK * D * 2;
  // (2, BQ): what the two warps of a pair tell each other about their rows.
  float* exchange = reinterpret_cast<float*>(shared + Compiled::tile_bytes + Compiled::p_bytes) + pair_row;
  const auto load = [&](uint32_t tile, const T* from, int j) {
    const int key = j * BK;
    from += int64_t{key} * s.head_dim;
    asm volatile("" : "+l"(from));  // or the compiler keeps a pointer per thread and tensor across the loop
    copy_tile_async<BK, D, threads>(tile, from, s.seqlen_k - key, s.head_dim, thread);
  };

  float o[M][C][4] = {};   // (R, cols), not yet divided by l
  float m[M][2], l[M][2];  // the pair's running maximum of S; this lane's part of the running sum of P
#pragma unroll
  for (int i = 0; i < M; ++i) {
    m[i][0] = m[i][1] = -CUDART_INF_F;
    l[i][0] = l[i][1] = 0;
  }

  const int first_tile = block.first_tile, end_tile = block.end_tile;
  bool non_finite = false;
  if (first_tile < end_tile) {
    copy_tile_async<BQ, D, threads>(q_tile, p.q + first_row * s.head_dim, block.rows, s.head_dim, thread);
    load(k_tile, k, end_tile - 1);
    cp_async_commit();
  }
  const auto q_at = rows_first<D>(q_tile, pair_row, lane);
  const int pair_first = block.row + pair_row;
  const int pair_last = block.row + min(pair_row + R, block.rows) - 1;

  for (int j = end_tile - 1; j >= first_tile; --j) {
    const int key = j * BK + half * keys;
    cp_async_wait<0>();
    __syncthreads();  // K(j) is here, and nobody reads V(j + 1) any more
    load(v_tile, v, j);
    cp_async_commit();

    // What the pair's rows see of the tile: nothing, a part of this warp's keys, or all of them.
    const bool sees =
        pair_first <= pair_last && s.first_key(pair_first) < (j + 1) * BK && s.end_key(pair_last) > j * BK;
    const bool partial = s.first_key(pair_last) > key || s.end_key(pair_first) < key + keys;

    uint32_t kept[M];
    if (DROPOUT && sees) {
      const uint32_t head = block.batch * s.heads_q + block.head;
#pragma unroll
      for (int i = 0; i < M; ++i)
        kept[i] =
            dropout_kept<N>(s.dropout_seed, s.dropout_threshold, head, pair_first + 16 * i + g, key, lane);
    }

    float score[M][N][4];  // S, then P: (R, keys)
    float m_own[M][2];     // its maximum, or the running one where that is larger
    bool grows = false;
    if (sees) {
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) score[i][n][e] = 0;
      const auto k_at = columns_first<D>(k_tile, half * keys, lane);
#pragma unroll
      for (int c = 0; c < D / 16; ++c) {
        uint32_t a[M][4];
#pragma unroll
        for (int i = 0; i < M; ++i) ldmatrix_x4(a[i], q_at(16 * i, 2 * c));
#pragma unroll
        for (int n = 0; n < N; n += 2) {
          uint32_t b[4];
          ldmatrix_x4(b, k_at(8 * n, 2 * c));
#pragma unroll
          for (int i = 0; i < M; ++i) {
            mma_m16n8k16<T>(score[i][n], a[i], b[0], b[1]);
            mma_m16n8k16<T>(score[i][n + 1], a[i], b[2], b[3]);
          }
        }
      }
      if (partial) {
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const int row = pair_first + 16 * i + 8 * r + g;
            const int begin = s.first_key(row) - key - 2 * t, end = s.end_key(row) - key - 2 * t;
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
              for (int e = 0; e < 2; ++e)
                if (8 * n + e < begin || 8 * n + e >= end) score[i][n][2 * r + e] = -CUDART_INF_F;
          }
      }
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float x = fmaxf(score[i][0][2 * r], score[i][0][2 * r + 1]);
#pragma unroll
          for (int n = 1; n < N; ++n) x = fmaxf(x, fmaxf(score[i][n][2 * r], score[i][n][2 * r + 1]));
          m_own[i][r] = fmaxf(m[i][r], quad_max(x));
          grows |= (m_own[i][r] - m[i][r]) * s.scale_log2 > rescale_threshold;
        }
    }
    cp_async_wait<0>();
    if (block.is_cut(s, j)) non_finite |= zero_non_finite<BK, D, threads, T>(shared + (BQ + BK) * D * 2);
    const bool rescales = __syncthreads_or(grows);  // V(j) is here, and nobody reads K(j) any more
    if (j > first_tile) load(k_tile, k, j - 1);
    cp_async_commit();

    if (sees) {
      if (rescales) {
        if (t == 0) {
#pragma unroll
          for (int i = 0; i < M; ++i)
#pragma unroll
            for (int r = 0; r < 2; ++r) exchange[half * BQ + 16 * i + 8 * r + g] = m_own[i][r];
        }
        pair_barrier(pair);
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const float m_new = fmaxf(m_own[i][r], exchange[(half ^ 1) * BQ + 16 * i + 8 * r + g]);
            const float shift = m_new == -CUDART_INF_F ? 0.0f : m_new;
            const float correction = exp2_approx((m[i][r] - shift) * s.scale_log2);
            m[i][r] = m_new;
            l[i][r] *= correction;
#pragma unroll
            for (int d = 0; d < C; ++d) {
              o[i][d][2 * r] *= correction;
              o[i][d][2 * r + 1] *= correction;
            }
          }
      }
      // P = exp(S - m) of this warp's keys, its row sums, dropout.
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float shift = m[i][r] == -CUDART_INF_F ? 0.0f : m[i][r] * s.scale_log2;
#pragma unroll
          for (int n = 0; n < N; ++n) {
            float& x = score[i][n][2 * r];
            float& y = score[i][n][2 * r + 1];
            x = exp2_approx(fmaf(x, s.scale_log2, -shift));
            y = exp2_approx(fmaf(y, s.scale_log2, -shift));
            l[i][r] += x + y;
          }
        }
      if (DROPOUT) {
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
          for (int n = 0; n < N; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (!is_kept(kept[i], n, e)) score[i][n][e] = 0;
      }
      // The partner has read the last step's P: it has passed the thread block's barrier since.
      const auto p_to = rows_first<BK>(p_tile, pair_row, lane, half * N);
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int n = 0; n < N; n += 2)
          stmatrix_x4(p_to(16 * i, n), pack<T>(score[i][n][0], score[i][n][1]),
                      pack<T>(score[i][n][2], score[i][n][3]),
                      pack<T>(score[i][n + 1][0], score[i][n + 1][1]),
                      pack<T>(score[i][n + 1][2], score[i][n + 1][3]));
      pair_barrier(pair);
      // O += P V for this warp's columns.
      const auto p_at = rows_first<BK>(p_tile, pair_row, lane);
      const auto v_at = rows_first<D>(v_tile, 0, lane, half * C);
#pragma unroll
      for (int c = 0; c < BK / 16; ++c) {
        uint32_t a[M][4];
#pragma unroll
        for (int i = 0; i < M; ++i) ldmatrix_x4(a[i], p_at(16 * i, 2 * c));
#pragma unroll
        for (int d = 0; d < C; d += 2) {
          uint32_t b[4];
          ldmatrix_x4_trans(b, v_at(16 * c, d));
#pragma unroll
          for (int i = 0; i < M; ++i) {
            mma_m16n8k16<T>(o[i][d], a[i], b[0], b[1]);
            mma_m16n8k16<T>(o[i][d + 1], a[i], b[2], b[3]);
          }
        }
      }
    }
  }

  // Row sums over both halves of the keys, O / l and LSE. O passes through Q's tile, so that stores are whole
  // lines.
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[i][r] = quad_sum(l[i][r]);
      if (t == 0) exchange[half * BQ + 16 * i + 8 * r + g] = l[i][r];
    }
  pair_barrier(pair);  // the partner's sums are here, and it has fetched its last fragments of Q
  const auto o_to = rows_first<D>(q_tile, pair_row, lane, half * C);
#pragma unroll
  for (int i = 0; i < M; ++i) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = 16 * i + 8 * r + g;
      const float sum = l[i][r] + exchange[(half ^ 1) * BQ + row];  // 0: see forward.cuh
      const float factor = sum == 0.0f ? 0.0f : s.keep_scale / sum;
#pragma unroll
      for (int d = 0; d < C; ++d) {
        o[i][d][2 * r] *= factor;
        o[i][d][2 * r + 1] *= factor;
      }
      if (half == 0 && t == 0 && pair_row + row < block.rows)
        p.lse[first_row + pair_row + row] = sum == 0.0f ? -CUDART_INF_F : m[i][r] * s.scale + logf(sum);
    }
#pragma unroll
    for (int d = 0; d < C; d += 2)
      stmatrix_x4(o_to(16 * i, d), pack<T>(o[i][d][0], o[i][d][1]), pack<T>(o[i][d][2], o[i][d][3]),
                  pack<T>(o[i][d + 1][0], o[i][d + 1][1]), pack<T>(o[i][d + 1][2], o[i][d + 1][3]));
  }
  pair_barrier(pair);
  store_tile<R, D, 64>(p.o + (first_row + pair_row) * s.head_dim, shared + pair_row * D * 2,
                       block.rows - pair_row, s.head_dim, thread % 64);
  if (__syncthreads_or(non_finite))
    for (int j = first_tile; j < end_tile; ++j)
      if (block.is_cut(s, j))
        restore_o<threads>(s, block.row, block.rows, j * BK, (j + 1) * BK, v, p.lse + first_row,
                           p.o + first_row * s.head_dim);
}

/// As launch_forward.
template <class T, class Compiled>
void launch_forward_pairs(const Problem& p, BlockOrder order, const Tensors& x, void* stream) {
  const ForwardParameters<T> parameters = forward_parameters<T>(p, Compiled::block_q, order, x);
  const auto kernel = parameters.shape.dropout_threshold > 0 ? forward_pairs_kernel<T, Compiled, true>
                                                             : forward_pairs_kernel<T, Compiled, false>;
  launch("fa2 forward", kernel, grid_of(p, parameters), Compiled::threads, Compiled::shared_bytes, stream,
         parameters);
}

}  // namespace flashsim::gpu::fa2

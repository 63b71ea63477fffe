// FlashAttention-2 forward for head_dim 256: pairs of warps share 32 rows.
//
// At this head_dim 16 rows of O fill half of a warp's registers, and with so few rows a warp fetches 72 KiB
// from shared memory for a 64-key tile, more than tensor cores take time for (see forward.cuh, which this is
// a variation of). Here two warps own 32 rows. Each computes S for half of the tile's keys and O for half of
// the columns, so that what K and V give is used twice as often: 54 KiB for as many products. For that,
// both need all of P, which passes through shared memory, and the same maximum.
//
// One step of a pair: S | do scores of any row of the block grow beyond the maximum? (a word in shared memory
// tells after the barrier that waits for V) | P of its own keys to shared memory | barrier of the pair |
// O += P V for its own columns.
#pragma once

#include "gpu_kernels/fa2/forward_block.cuh"
#include "gpu_kernels/fa2/forward_rows.cuh"

namespace flashsim::gpu::fa2 {

/// BLOCK_K keys a tile, one K and one V buffer as with ForwardTiling.
template <int HEAD_DIM, int BLOCK_Q, int BLOCK_K, int BLOCKS_PER_SM>
struct PairTiling {
  static_assert(HEAD_DIM == 256, "a warp's half of O fits its registers, and pays, at head_dim 256");
  static constexpr int head_dim = HEAD_DIM, block_q = BLOCK_Q, block_k = BLOCK_K,
                       blocks_per_sm = BLOCKS_PER_SM;
  static constexpr int pair_rows = 32, warps = 2 * BLOCK_Q / pair_rows, threads = 32 * warps;
  static constexpr int tile_bytes = (BLOCK_Q + 2 * BLOCK_K) * head_dim * 2;
  static constexpr int p_bytes = BLOCK_Q * BLOCK_K * 2;
  static constexpr int shared_bytes = tile_bytes + p_bytes + 2 * BLOCK_Q * 4 + 16;
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
  // The last step in which a row's scores grew beyond the maximum.
  int* growing_step = reinterpret_cast<int*>(shared + Compiled::shared_bytes - 16);

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
    load_keys<Compiled>(k_tile, k, end_tile - 1, s, thread);
    cp_async_commit();
  }
  if (thread == 0) *growing_step = end_tile;
  const auto q_at = rows_first<D>(q_tile, pair_row, lane);
  const int pair_first = block.row + pair_row;
  const int pair_last = block.row + min(pair_row + R, block.rows) - 1;

  for (int j = end_tile - 1; j >= first_tile; --j) {
    const int key = j * BK + half * keys;
    cp_async_wait<0>();
    __syncthreads();  // K(j) is here, and nobody reads V(j + 1) any more
    load_keys<Compiled>(v_tile, v, j, s, thread);
    cp_async_commit();

    // What the pair's rows see of the tile: nothing, a part of this warp's keys, or all of them.
    const bool sees =
        pair_first <= pair_last && s.first_key(pair_first) < (j + 1) * BK && s.end_key(pair_last) > j * BK;
    const bool partial = s.first_key(pair_last) > key || s.end_key(pair_first) < key + keys;

    KeptElements<M, N> kept;
    if (DROPOUT && sees) kept.draw(s, block.batch * s.heads_q + block.head, pair_first, key);

    float score[M][N][4];  // S, then P: (R, keys)
    float m_new[M][2];     // its maximum, or the running one where that is larger
    if (sees) {
      clear(score);
      const auto k_at = columns_first<D>(k_tile, half * keys, lane);
      multiply<T, D / 16>(
          score, [&](auto& a, int i, int c) { ldmatrix_x4(a, q_at(16 * i, 2 * c)); },
          [&](auto& b, int n, int c) { ldmatrix_x4(b, k_at(8 * n, 2 * c)); });
      if (partial) mask_scores(score, s, pair_first + g, key, t);
      // Steps count down, so that no step is taken for another and nothing has to be cleared. Atomic, as
      // several threads may write.
      if (new_maximum(m_new, m, score, s.scale_log2)) atomicMin(growing_step, j);
    }
    cp_async_wait<0>();
    if (block.is_cut(s, j)) non_finite |= zero_non_finite<BK, D, threads, T>(shared + (BQ + BK) * D * 2);
    __syncthreads();  // V(j) is here, and nobody reads K(j) any more
    const bool rescales = *growing_step == j;
    if (j > first_tile) load_keys<Compiled>(k_tile, k, j - 1, s, thread);
    cp_async_commit();

    if (sees) {
      if (rescales) {
        if (t == 0) {
#pragma unroll
          for (int i = 0; i < M; ++i)
#pragma unroll
            for (int r = 0; r < 2; ++r) exchange[half * BQ + 16 * i + 8 * r + g] = m_new[i][r];
        }
        pair_barrier(pair);
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            m_new[i][r] = fmaxf(m_new[i][r], exchange[(half ^ 1) * BQ + 16 * i + 8 * r + g]);
        rescale(o, l, m, m_new, s.scale_log2);
      }
      exponentials(score, l, m, s.scale_log2);
      if (DROPOUT) kept.apply(score);
      // The partner has read the last step's P: it has passed the thread block's barrier since.
      const auto p_to = rows_first<BK>(p_tile, pair_row, lane, half * N);
#pragma unroll
      for (int i = 0; i < M; ++i) put_rows<T>(p_to, score, i);
      pair_barrier(pair);
      // O += P V for this warp's columns.
      const auto p_at = rows_first<BK>(p_tile, pair_row, lane);
      const auto v_at = rows_first<D>(v_tile, 0, lane, half * C);
      multiply<T, BK / 16>(
          o, [&](auto& a, int i, int c) { ldmatrix_x4(a, p_at(16 * i, 2 * c)); },
          [&](auto& b, int d, int c) { ldmatrix_x4_trans(b, v_at(16 * c, d)); });
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
      const float sum = l[i][r] + exchange[(half ^ 1) * BQ + row];
      divide_row(o, i, r, sum, s.keep_scale);
      if (half == 0 && t == 0 && pair_row + row < block.rows)
        p.lse[first_row + pair_row + row] = lse_of(m[i][r], sum, s.scale);
    }
    put_rows<T>(o_to, o, i);
  }
  pair_barrier(pair);
  store_tile<R, D, 64>(p.o + (first_row + pair_row) * s.head_dim, shared + pair_row * D * 2,
                       block.rows - pair_row, s.head_dim, thread % 64);
  restore_rows(p, block, v, first_row, non_finite);
}

/// As launch_forward.
template <class T, class Compiled>
void launch_forward_pairs(const Problem& p, BlockOrder order, const Tensors& x, void* stream) {
  launch_rows<Compiled>(forward_pairs_kernel<T, Compiled, false>, forward_pairs_kernel<T, Compiled, true>, p,
                        order, x, stream);
}

}  // namespace flashsim::gpu::fa2

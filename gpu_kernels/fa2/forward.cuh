// FlashAttention-2 forward (Dao 2023, Algorithm 1) on mma.sync.
//
// Idea: one thread block a row block of one head. Q stays on chip, tiles of K and V stream past it, O, l and
// m never leave registers, and O is divided by l once, at the end. Each warp owns rows of Q, so warps
// exchange nothing but the K and V tiles they all read.
//
// There is one buffer for K and one for V: V(j) arrives during Q K(j)^T, K(j - 1) during the softmax and
// P V(j). What is done with rows of S and P is in forward_rows.cuh.
//
// Traffic: Q once, every visible K and V tile once, O once, 4 bytes of LSE a row; all loads pass by L1.
//
// What still hurts: the products are issued by the warps that also compute the softmax, so tensor cores idle
// unless another warp of the same scheduler has products to issue; every K and V fragment is fetched from
// shared memory once a warp, and a warp has at most 32 rows to use it for. FA3's wgmma cures both.
#pragma once

#include "gpu_kernels/fa2/forward_block.cuh"
#include "gpu_kernels/fa2/forward_rows.cuh"

namespace flashsim::gpu::fa2 {

/// A compiled tiling. BLOCKS_PER_SM bounds the registers.
template <int HEAD_DIM, int BLOCK_Q, int BLOCK_K, int WARPS, int BLOCKS_PER_SM>
struct ForwardTiling {
  static constexpr int head_dim = HEAD_DIM, block_q = BLOCK_Q, block_k = BLOCK_K, warps = WARPS;
  static constexpr int threads = 32 * WARPS, blocks_per_sm = BLOCKS_PER_SM;
  static constexpr int warp_rows = BLOCK_Q / WARPS;
  static constexpr int shared_bytes = (BLOCK_Q + 2 * BLOCK_K) * HEAD_DIM * 2;
  static_assert(warp_rows == 16 || warp_rows == 32, "a warp owns one or two blocks of 16 rows");
};

template <class T, class Compiled, bool DROPOUT>
__global__ void __launch_bounds__(Compiled::threads, Compiled::blocks_per_sm)
    forward_kernel(const ForwardParameters<T> p) {
  constexpr int D = Compiled::head_dim, BQ = Compiled::block_q, BK = Compiled::block_k;
  constexpr int threads = Compiled::threads, warp_rows = Compiled::warp_rows;
  constexpr int M = warp_rows / 16;  // blocks of 16 rows a warp owns
  constexpr int N = BK / 8;          // 8-column blocks of S
  constexpr bool whole = D == 128 && !DROPOUT;
  extern __shared__ __align__(128) unsigned char shared[];

  const Shape& s = p.shape;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const RowBlock<Compiled> block(p);
  const int64_t first_row = s.query_row(block.batch, block.head) + block.row;
  const int64_t first_key = s.key_row(block.batch, block.head / s.group);
  const T* k = p.k + first_key * s.head_dim;
  const T* v = p.v + first_key * s.head_dim;

  const uint32_t q_tile = shared_address(shared), k_tile = q_tile + BQ * D * 2, v_tile = k_tile + BK * D * 2;
  const int warp_row = warp * warp_rows;

  float o[M][D / 8][4] = {};  // (warp_rows, D), not yet divided by l
  float m[M][2], l[M][2];     // running maximum of S; this lane's part of the running sum of P
#pragma unroll
  for (int i = 0; i < M; ++i) {
    m[i][0] = m[i][1] = -CUDART_INF_F;
    l[i][0] = l[i][1] = 0;
  }

  const int first_tile = block.first_tile, end_tile = block.end_tile;
  bool non_finite = false;
  if (first_tile < end_tile) {
    copy_tile_async<BQ, D, threads>(q_tile, p.q + first_row * s.head_dim, block.rows, s.head_dim, thread);
    load_keys<Compiled, whole>(k_tile, k, end_tile - 1, s, thread);
    cp_async_commit();
  }
  const auto q_at = rows_first<D>(q_tile, warp_row, lane);

  for (int j = end_tile - 1; j >= first_tile; --j) {
    const int key = j * BK;
    const bool cut = block.is_cut(s, j);
    cp_async_wait<0>();
    __syncthreads();  // K(j) is here, and nobody reads V(j + 1) any more
    load_keys<Compiled, whole>(v_tile, v, j, s, thread);
    cp_async_commit();

    // What this warp's rows see of the tile: nothing, a part, or all of it.
    const int warp_first = block.row + warp_row;
    const int warp_last = block.row + min(warp_row + warp_rows, block.rows) - 1;
    const bool sees =
        warp_first <= warp_last && s.first_key(warp_first) < key + BK && s.end_key(warp_last) > key;
    const bool partial = s.first_key(warp_last) > key || s.end_key(warp_first) < key + BK;

    KeptElements<M, N> kept;  // drawn while no S occupies registers
    if (DROPOUT && sees) kept.draw(s, block.batch * s.heads_q + block.head, warp_first, key);

    float score[M][N][4];  // S, then P: (warp_rows, BK)
    if (sees) {
      clear(score);
      const auto k_at = columns_first<D>(k_tile, 0, lane);
      multiply<T, D / 16>(
          score, [&](auto& a, int i, int c) { ldmatrix_x4(a, q_at(16 * i, 2 * c)); },
          [&](auto& b, int n, int c) { ldmatrix_x4(b, k_at(8 * n, 2 * c)); });
    }
    cp_async_wait<0>();
    if (cut) non_finite |= zero_non_finite<BK, D, threads, T>(shared + (BQ + BK) * D * 2);
    __syncthreads();  // V(j) is here, and nobody reads K(j) any more
    if (j > first_tile) load_keys<Compiled, whole>(k_tile, k, j - 1, s, thread);
    cp_async_commit();

    if (sees) {
      if (partial) mask_scores(score, s, warp_first + g, key, t);
      float largest[M][2];
      lane_maxima(largest, score);
      if (warp_grows(m, largest, s.scale_log2)) {
        float m_new[M][2];
        new_maximum(m_new, m, largest);
        rescale(o, l, m, m_new, s.scale_log2);
      }
      exponentials(score, l, m, s.scale_log2);
      if (DROPOUT) kept.apply(score);
      // O += P V: two neighbouring C fragments of P are an A fragment.
      uint32_t prob[M][BK / 16][4];
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int c = 0; c < BK / 16; ++c)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            prob[i][c][e] =
                pack<T>(score[i][2 * c + e / 2][e % 2 * 2], score[i][2 * c + e / 2][e % 2 * 2 + 1]);
      const auto v_at = rows_first<D>(v_tile, 0, lane);
      multiply<T, BK / 16>(
          o,
          [&](auto& a, int i, int c) {
#pragma unroll
            for (int e = 0; e < 4; ++e) a[e] = prob[i][c][e];
          },
          [&](auto& b, int d, int c) { ldmatrix_x4_trans(b, v_at(16 * c, d)); });
    }
  }

  // O / l and LSE. Each warp passes its rows through its own part of Q's tile, so that stores are whole
  // lines.
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = warp_row + 16 * i + 8 * r + g;
      const float sum = quad_sum(l[i][r]);
      divide_row(o, i, r, sum, s.keep_scale);
      if (t == 0 && row < block.rows) p.lse[first_row + row] = lse_of(m[i][r], sum, s.scale);
    }
  __syncwarp();  // all lanes have fetched this warp's rows of Q
#pragma unroll
  for (int i = 0; i < M; ++i) put_rows<T>(q_at, o, i);
  __syncwarp();
  store_tile<warp_rows, D, 32>(p.o + (first_row + warp_row) * s.head_dim, shared + warp_row * D * 2,
                               block.rows - warp_row, s.head_dim, lane);
  restore_rows(p, block, v, first_row, non_finite);
}

/// Launches on `stream`; the problem has no fault and its padded head_dim is the tiling's.
template <class T, class Compiled>
void launch_forward(const Problem& p, const Tiling& t, const Tensors& x, void* stream) {
  launch_rows<Compiled>(forward_kernel<T, Compiled, false>, forward_kernel<T, Compiled, true>, p, t, x,
                        stream);
}

}  // namespace flashsim::gpu::fa2

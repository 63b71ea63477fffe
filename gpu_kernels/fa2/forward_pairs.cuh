// FlashAttention-2 forward for head_dim 256: pairs of warps share 32 rows.
//
// At this head_dim 16 rows of O fill half of a warp's registers, and with so few rows a warp fetches 72 KiB
// from shared memory for a 64-key tile, more than tensor cores take time for (see forward.cuh, which this is
// a variation of). Here two warps own 32 rows. Each computes S for half of the tile's keys and O for half of
// the columns, so that what K and V give is used twice as often: 54 KiB for as many products. For that,
// both need all of P, which passes through shared memory, and the same maximum.
//
// One step of a warp: S of its own keys | P of them to shared memory, if no row grows beyond the maximum |
// the barrier that waits for V | O += P V for its own columns. Where a row does grow, which a word in shared
// memory tells after that barrier, the pairs agree on maxima first and write P again: one barrier more, in
// few steps. All barriers are the thread block's, as pairs have nothing to tell each other between those.
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
  static constexpr int shared_bytes = tile_bytes + p_bytes + 2 * BLOCK_Q * 4 + 32;
  static_assert(BLOCK_Q % pair_rows == 0 && BLOCK_K % 64 == 0, "");
};

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
  RowBlock<Compiled> block(p);
  if (DROPOUT)
    asm volatile("" : "+r"(block.first_tile));  // or it is computed again every step, and registers spill
  const int64_t first_row = s.query_row(block.batch, block.head) + block.row;
  const int64_t head_keys = s.key_row(block.batch, block.head / s.group) * s.head_dim;

  const uint32_t q_tile = shared_address(shared), k_tile = q_tile + BQ * D * 2;
  const uint32_t v_tile = k_tile + BK * D * 2, p_tile = v_tile + BK * D * 2;
  // (2, BQ): what the two warps of a pair tell each other about their rows.
  float* exchange = reinterpret_cast<float*>(shared + Compiled::tile_bytes + Compiled::p_bytes) + pair_row;
  const auto tell_partner = [&](const float(&x)[M][2]) {
    if (t != 0) return;
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int r = 0; r < 2; ++r) exchange[half * BQ + 16 * i + 8 * r + g] = x[i][r];
  };
  const auto partners = [&](int row) { return exchange[(half ^ 1) * BQ + row]; };
  // What all threads need now and then and registers have no room for: the block's first row in O and LSE,
  // its head's first element in K and V, and the last step in which a row's scores grew beyond the maximum.
  int64_t* places = reinterpret_cast<int64_t*>(shared + Compiled::shared_bytes - 32);
  int* growing_step = reinterpret_cast<int*>(places + 2);
  // Without dropout there is room for one of them.
  const auto head_element = [&] { return DROPOUT ? places[1] : head_keys; };

  float o[M][C][4] = {};   // (R, cols), not yet divided by l
  float m[M][2], l[M][2];  // the pair's running maximum of S; this lane's part of the running sum of P
#pragma unroll
  for (int i = 0; i < M; ++i) {
    m[i][0] = m[i][1] = -CUDART_INF_F;
    l[i][0] = l[i][1] = 0;
  }
  tell_partner(m);

  const int first_tile = block.first_tile, end_tile = block.end_tile;
  bool non_finite = false;
  if (first_tile < end_tile) {
    copy_tile_async<BQ, D, threads>(q_tile, p.q + first_row * s.head_dim, block.rows, s.head_dim, thread);
    load_keys<Compiled>(k_tile, p.k + head_keys, end_tile - 1, s, thread);
    cp_async_commit();
  }
  if (thread == 0) places[0] = first_row, places[1] = head_keys, *growing_step = end_tile;
  const auto q_at = rows_first<D>(q_tile, pair_row, lane);
  const int pair_first = block.row + pair_row;
  const int pair_last = block.row + min(pair_row + R, block.rows) - 1;

  for (int j = end_tile - 1; j >= first_tile; --j) {
    const int key = j * BK + half * keys;
    cp_async_wait<0>();
    __syncthreads();  // K(j) is here, and nobody reads V(j + 1) any more
    load_keys<Compiled>(v_tile, p.v + head_element(), j, s, thread);
    cp_async_commit();

    // What the pair's rows see of the tile: nothing, a part of this warp's keys, or all of them.
    const bool sees =
        pair_first <= pair_last && s.first_key(pair_first) < (j + 1) * BK && s.end_key(pair_last) > j * BK;
    const bool partial = s.first_key(pair_last) > key || s.end_key(pair_first) < key + keys;

    float score[M][N][4];  // S, then P: (R, keys)
    const auto exponentials_and_dropout = [&] {
      exponentials(score, l, m, s.scale_log2);
      if (!DROPOUT) return;
      KeptElements<M, N> kept;
      kept.draw(s, block.batch * s.heads_q + block.head, pair_first, key);
      kept.apply(score);
    };
    const auto put_p = [&] {
      const auto p_to = rows_first<BK>(p_tile, pair_row, lane, half * N);
#pragma unroll
      for (int i = 0; i < M; ++i) put_rows<T>(p_to, score, i);
    };
    bool grows = false;  // whether one of the rows grows beyond the maximum, in this warp's keys
    float m_new[M][2];   // then: its maximum in them, or the running one where that is larger
    if (sees) {
      clear(score);
      const auto k_at = columns_first<D>(k_tile, half * keys, lane);
      multiply<T, D / 16>(
          score, [&](auto& a, int i, int c) { ldmatrix_x4(a, q_at(16 * i, 2 * c)); },
          [&](auto& b, int n, int c) { ldmatrix_x4(b, k_at(8 * n, 2 * c)); });
      if (partial) mask_scores(score, s, pair_first + g, key, t);
      float largest[M][2];
      lane_maxima(largest, score);
      grows = warp_grows(m, largest, s.scale_log2);
      if (grows) {
        new_maximum(m_new, m, largest);
        // Steps count down, so that no step is taken for another and nothing has to be cleared. Atomic, as
        // several warps may write.
        if (lane == 0) atomicMin(growing_step, j);
        tell_partner(m_new);
      } else {
        exponentials_and_dropout();
        put_p();
      }
    }
    cp_async_wait<0>();
    if (block.is_cut(s, j)) non_finite |= zero_non_finite<BK, D, threads, T>(shared + (BQ + BK) * D * 2);
    __syncthreads();  // V(j) and P are here, and nobody reads K(j) any more
    const bool rescales = *growing_step == j;
    if (j > first_tile) load_keys<Compiled>(k_tile, p.k + head_element(), j - 1, s, thread);
    cp_async_commit();

    if (rescales) {
      if (sees) {
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            // A warp without growth has told the partner nothing new: what it told before is no larger than
            // m.
            m_new[i][r] = fmaxf(grows ? m_new[i][r] : m[i][r], partners(16 * i + 8 * r + g));
        if (!grows) scale_rows(score, m, m_new, s.scale_log2);  // P is there, to the old maximum
        rescale(o, l, m, m_new, s.scale_log2);
        if (grows) exponentials_and_dropout();
        put_p();
      }
      __syncthreads();  // P is here
    }
    if (sees) {  // O += P V for this warp's columns
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
    for (int r = 0; r < 2; ++r) l[i][r] = quad_sum(l[i][r]);
  tell_partner(l);
  __syncthreads();  // the partner's sums are here, and it has fetched its last fragments of Q
  const auto o_to = rows_first<D>(q_tile, pair_row, lane, half * C);
#pragma unroll
  for (int i = 0; i < M; ++i) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = 16 * i + 8 * r + g;
      const float sum = l[i][r] + partners(row);
      divide_row(o, i, r, sum, s.keep_scale);
      if (half == 0 && t == 0 && pair_row + row < block.rows)
        p.lse[places[0] + pair_row + row] = lse_of(m[i][r], sum, s.scale);
    }
    put_rows<T>(o_to, o, i);
  }
  __syncthreads();
  store_tile<R, D, 64>(p.o + (places[0] + pair_row) * s.head_dim, shared + pair_row * D * 2,
                       block.rows - pair_row, s.head_dim, thread % 64);
  restore_rows(p, block, p.v + head_element(), places[0], non_finite);
}

/// As launch_forward.
template <class T, class Compiled>
void launch_forward_pairs(const Problem& p, const Tiling& t, const Tensors& x, void* stream) {
  launch_rows<Compiled>(forward_pairs_kernel<T, Compiled, false>, forward_pairs_kernel<T, Compiled, true>, p,
                        t, x, stream);
}

}  // namespace flashsim::gpu::fa2

// FlashAttention-2 backward (Dao 2023, Algorithm 2) on mma.sync.
//
// Idea: P is recomputed from Q, K and LSE instead of being kept. One thread block a column block of K and V;
// dK and dV stay in its registers while the row blocks that see it stream past, for every query head that
// shares the K/V head. dQ is summed over column blocks in fp32 in global memory, by reductions in any order
// or, where asked for, in a fixed one.
//
// Three kernels:
//   prepare   D = rowsum(dO o O); the sum of dQ starts at 0
//   main      S = Q K^T, P = exp(S - LSE), dP = dO V^T, dS = P o (dP - D), dV += P^T dO, dK += dS^T Q,
//             dQ sum += dS K
//   convert   dQ = softmax scale * the sum, rounded
//
// Traffic: prepare reads O and dO, writes D and the sum. main reads K and V once and, for each visible tile,
// Q, dO, LSE and D; it reduce-adds a dQ tile in fp32 for each, and writes dK and dV once. convert reads the
// sum and writes dQ.
//
// What still hurts: P and dS pass through shared memory so that other warps can take them as operands, and a
// warp's 32-row tiles make shared memory, not the tensor cores, the limit (about 600 cycles of operand
// fetches against 512 of products for each 64 x 128 x 128 step).
#pragma once

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/common/tile.cuh"
#include "gpu_kernels/common/visible.cuh"
#include "gpu_kernels/fa2/backward_rows.cuh"
#include "gpu_kernels/fa2/backward_scores.cuh"
#include "gpu_kernels/fa2/tilings.h"
#include "gpu_kernels/fa2/workspace.h"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::fa2 {

/// Waits until `turn` counts `rank` thread blocks before this one.
__device__ __forceinline__ void wait_for_turn(const unsigned* turn, unsigned rank) {
  if (threadIdx.x == 0)
    while (load_acquire(turn) != rank) {}
  __syncthreads();
}
/// Lets the next one pass, after all reductions of this thread block.
__device__ __forceinline__ void pass_turn(unsigned* turn) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(turn, 1u);
}

/// Thread blocks an SM that registers must leave room for: at most 2 where drawing dropout's bits takes some,
/// and on devices whose shared memory has room for no more.
template <class Compiled, bool DROPOUT>
constexpr int resident_blocks() {
#if __CUDA_ARCH__ >= 900
  return DROPOUT && Compiled::blocks_per_sm > 2 ? 2 : Compiled::blocks_per_sm;
#else
  return Compiled::blocks_per_sm > 2 ? 2 : Compiled::blocks_per_sm;
#endif
}

/// Whether where a head's rows begin within a sector of LSE is carried along or computed in every
/// step. Registers just suffice for one of the two.
template <bool DROPOUT>
constexpr bool carries_place() {
#if __CUDA_ARCH__ >= 900
  return true;
#else
  return !DROPOUT;
#endif
}

template <class T, class Compiled, bool DROPOUT>
__global__ void __launch_bounds__(Compiled::threads, resident_blocks<Compiled, DROPOUT>())
    backward_kernel(const BackwardParameters<T> p) {
  constexpr int D = Compiled::head_dim, BQ = Compiled::block_q, BK = Compiled::block_k;
  constexpr int threads = Compiled::threads;
  constexpr int KM = Compiled::kv_rows / 16, KN = Compiled::kv_cols / 8;  // dK and dV
  constexpr int QM = Compiled::q_rows / 16, QN = Compiled::q_cols / 8;    // dQ
  extern __shared__ __align__(128) unsigned char shared[];

  const Shape& s = p.shape;
  const int thread = threadIdx.x;
  const unsigned warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;

  unsigned index = blockIdx.x;
  if (p.turns != nullptr) {
    // Who waits for a turn waits only for thread blocks that have started: tickets are drawn in that order.
    unsigned* ticket = reinterpret_cast<unsigned*>(shared);
    if (thread == 0) *ticket = atomicAdd(p.turns + int64_t{s.batch} * s.heads_q * p.row_blocks, 1u);
    __syncthreads();
    index = *ticket;
    __syncthreads();
  }
  const int x = index % p.col_blocks, bh = index / p.col_blocks;
  // A fixed order of summation starts from the last column block: the first visit of a column block is its
  // diagonal, the next goes one row block on, and so on, so that the turns come round without anybody
  // waiting.
  const int col = p.turns != nullptr || p.last_to_first ? p.col_blocks - 1 - x : x;
  const int key = col * BK, keys = min(BK, s.seqlen_k - key);
  const int64_t first_key = int64_t{bh} * s.seqlen_k + key;
  // The row blocks that see this column block, for each query head of the group.
  const auto [first_block, end_block] = visible_rows(s, key, key + keys, BQ);

  const uint32_t k_tile = shared_address(shared), v_tile = k_tile + Compiled::k_bytes;
  const uint32_t q_tile = v_tile + Compiled::k_bytes, do_tile = q_tile + 2 * Compiled::q_bytes;
  const uint32_t p_tile = do_tile + 2 * Compiled::q_bytes, ds_tile = p_tile + Compiled::p_bytes;
  const uint32_t lse_rows = ds_tile + Compiled::p_bytes, d_rows = lse_rows + 2 * Compiled::row_bytes;

  // LSE and D go past L1 as everything else does. A head's rows begin `place` rows into a sector of 32 bytes.
  const auto place_in_sector = [&](unsigned head) -> int { return (head * s.seqlen_q) & 7; };
  const auto load_rows = [&](int stage, int head, int i) {
    const int row = i * BQ, rows = s.seqlen_q - row;
    int64_t first = int64_t{head} * s.seqlen_q + row;
    asm volatile("" : "+l"(first));  // or the compiler keeps pointers per thread and tensor across the loop
    copy_tile_async<BQ, D, threads, (D < 256)>(q_tile + stage * Compiled::q_bytes, p.q + first * s.head_dim,
                                               rows, s.head_dim, thread);
    copy_tile_async<BQ, D, threads, (D < 256)>(do_tile + stage * Compiled::q_bytes,
                                               p.d_o + first * s.head_dim, rows, s.head_dim, thread);
    if (thread < Compiled::row_lanes) {
      const uint32_t at = stage * Compiled::row_bytes + thread * 16;
      const int chunk = thread * 4 - place_in_sector(head);  // its first row; what is no row becomes 0
      const int bytes = 4 * max(0, min(4, min(BQ, rows) - chunk));
      first += bytes > 0 ? chunk : 0;
      if (bytes > 0 && first >= p.whole_rows) {  // 16 bytes would end behind the last head's rows
        for (int r = 0; r < 4; ++r) {
          const bool is_row = 4 * r < bytes;
          cp_async_4(lse_rows + at + 4 * r, p.lse + first + (is_row ? r : 0), is_row);
          cp_async_4(d_rows + at + 4 * r, p.d + first + (is_row ? r : 0), is_row);
        }
      } else {
        cp_async_16_part(lse_rows + at, p.lse + first, bytes);
        cp_async_16_part(d_rows + at, p.d + first, bytes);
      }
    }
  };

  float dk[KM][KN][4] = {}, dv[KM][KN][4] = {};
  int head = bh * s.group, block = first_block, stage = 0, place = place_in_sector(head);
  const int end_head = first_block < end_block ? head + s.group : head;
  if (head < end_head) {
    copy_tile_async<BK, D, threads, (D < 256)>(k_tile, p.k + first_key * s.head_dim, keys, s.head_dim,
                                               thread);
    copy_tile_async<BK, D, threads, (D < 256)>(v_tile, p.v + first_key * s.head_dim, keys, s.head_dim,
                                               thread);
    load_rows(0, head, block);
  }
  cp_async_commit();
  if (head < end_head) {
    cp_async_wait<0>();
    if (has_non_finite<BK, D, threads, T>(shared)) *p.repair = 1;
  }

  const ScorePart<Compiled> part(warp, lane);
  const bool computes_ds = Compiled::scores_apart && warp >= Compiled::score_warps;
  const int kv_row = warp % Compiled::key_warps * Compiled::kv_rows;
  const int kv_chunk = warp / Compiled::key_warps * KN;
  const int q_row = warp % Compiled::q_warps * Compiled::q_rows;
  const int q_chunk = warp / Compiled::q_warps * QN;

  while (head < end_head) {
    const int row = block * BQ;
    const int rows = min(BQ, s.seqlen_q - row);
    cp_async_wait<0>();
    __syncthreads();  // Q and dO are here, and nobody reads the last step's operands any more
    if (block + 1 < end_block)
      load_rows(stage ^ 1, head, block + 1);
    else if (head + 1 < end_head)
      load_rows(stage ^ 1, head + 1, first_block);
    cp_async_commit();
    const int carried = carries_place<DROPOUT>() ? place : 0;
    const auto computed = [&] { return carries_place<DROPOUT>() ? 0 : place_in_sector(head); };
    const float* statistics =
        reinterpret_cast<const float*>(shared + (lse_rows - k_tile)) + stage * Compiled::row_floats + carried;
    if (thread < rows && needs_repair(s, row + thread, statistics[computed() + thread],
                                      statistics[2 * Compiled::row_floats + computed() + thread]))
      *p.repair = 1;

    const uint32_t q_now = q_tile + stage * Compiled::q_bytes, do_now = do_tile + stage * Compiled::q_bytes;
    const BackwardStep step = {q_now,      do_now,     k_tile, v_tile, p_tile, ds_tile,
                               statistics, computed(), head,   row,    rows,   key};
    const auto add_dv = [&] {  // dV += P^T dO
      const auto pt_at = columns_first<BK>(p_tile, 0, lane, kv_row / 8);
      const auto do_at = rows_first<D>(do_now, 0, lane, kv_chunk);
      multiply<T, BQ / 16>(
          dv, [&](auto& a, int i, int c) { ldmatrix_x4_trans(a, pt_at(16 * c, 2 * i)); },
          [&](auto& b, int n, int c) { ldmatrix_x4_trans(b, do_at(16 * c, n)); });
    };
    if constexpr (Compiled::scores_apart)
      scores_apart<T>(s, step, part, computes_ds, add_dv);
    else
      scores_together<T, DROPOUT>(s, step, part);
    __syncthreads();  // P and dS are here

    if (!Compiled::scores_apart || computes_ds) add_dv();
    {
      // dK += dS^T Q
      const auto dst_at = columns_first<BK>(ds_tile, 0, lane, kv_row / 8);
      const auto q_at = rows_first<D>(q_now, 0, lane, kv_chunk);
      multiply<T, BQ / 16>(
          dk, [&](auto& a, int i, int c) { ldmatrix_x4_trans(a, dst_at(16 * c, 2 * i)); },
          [&](auto& b, int n, int c) { ldmatrix_x4_trans(b, q_at(16 * c, n)); });
    }
    {
      // dQ sum += dS K
      float dq[QM][QN][4] = {};
      const auto ds_at = rows_first<BK>(ds_tile, q_row, lane);
      const auto k_at = rows_first<D>(k_tile, 0, lane, q_chunk);
      multiply<T, BK / 16>(
          dq, [&](auto& a, int i, int c) { ldmatrix_x4(a, ds_at(16 * i, 2 * c)); },
          [&](auto& b, int n, int c) { ldmatrix_x4_trans(b, k_at(16 * c, n)); });
      unsigned* turn = nullptr;
      if (p.turns != nullptr) {
        turn = p.turns + int64_t{head} * p.row_blocks + block;
        const int end_col = (s.end_key(row + rows - 1) + BK - 1) / BK;
        wait_for_turn(turn, end_col - 1 - col);
      }
      const int64_t group = int64_t{head} * p.row_groups + (row + q_row) / 16;
#pragma unroll
      for (int i = 0; i < QM; ++i)
#pragma unroll
        for (int n = 0; n < QN; ++n)
          if (q_row + 16 * i < rows && (q_chunk + n) * 8 < s.head_dim)
            reduce_add_4(p.sum + ((group + i) * (s.head_dim / 8) + q_chunk + n) * 128 + lane * 4, dq[i][n][0],
                         dq[i][n][1], dq[i][n][2], dq[i][n][3]);
      if (turn != nullptr) pass_turn(turn);
    }
    stage ^= 1;
    if (++block == end_block) block = first_block, ++head, place = place_in_sector(head);
  }

  // dK and dV leave through K's and V's tiles, so that stores are whole lines.
  __syncthreads();
  const auto dk_at = rows_first<D>(k_tile, kv_row, lane, kv_chunk);
  const auto dv_at = rows_first<D>(v_tile, kv_row, lane, kv_chunk);
#pragma unroll
  for (int i = 0; i < KM; ++i)
#pragma unroll
    for (int n = 0; n < KN; n += 2) {
      const auto store = [&](uint32_t address, const float(&a)[4], const float(&b)[4], float f) {
        stmatrix_x4(address, pack<T>(a[0] * f, a[1] * f), pack<T>(a[2] * f, a[3] * f),
                    pack<T>(b[0] * f, b[1] * f), pack<T>(b[2] * f, b[3] * f));
      };
      store(dk_at(16 * i, n), dk[i][n], dk[i][n + 1], s.scale);
      store(dv_at(16 * i, n), dv[i][n], dv[i][n + 1], s.keep_scale);
    }
  __syncthreads();
  store_tile<BK, D, threads>(p.dk + first_key * s.head_dim, shared, keys, s.head_dim, thread);
  store_tile<BK, D, threads>(p.dv + first_key * s.head_dim, shared + Compiled::k_bytes, keys, s.head_dim,
                             thread);
}

/// Launches the three kernels on `stream`; the problem has no fault and its padded head_dim is the tilings',
/// which differ only in how warps share S and dP.
template <class T, class Compiled, class WithDropout>
void launch_backward(const Problem& p, const Tiling& t, const Tensors& x, void* stream) {
  const BackwardWorkspace workspace(p, Compiled::block_q, t.deterministic);
  BackwardParameters<T> a;
  a.shape = shape_of(p);
  a.q = static_cast<const T*>(x.q), a.k = static_cast<const T*>(x.k), a.v = static_cast<const T*>(x.v);
  a.o = static_cast<const T*>(x.o), a.d_o = static_cast<const T*>(x.d_o), a.lse = x.lse;
  a.dq = static_cast<T*>(x.dq), a.dk = static_cast<T*>(x.dk), a.dv = static_cast<T*>(x.dv);
  a.sum = static_cast<float*>(x.workspace), a.d = a.sum + workspace.sum_floats;
  a.repair = reinterpret_cast<unsigned*>(a.d + workspace.d_floats);
  a.turns = t.deterministic ? a.repair + 1 : nullptr;
  a.row_groups = workspace.row_groups, a.row_blocks = workspace.row_blocks;
  a.col_blocks = (p.seqlen_k + Compiled::block_k - 1) / Compiled::block_k;
  a.last_to_first = t.order == BlockOrder::last_to_first;
  a.whole_rows = workspace.heads * p.seqlen_q / 4 * 4;

  const auto grid = [](std::int64_t blocks) { return dim3(static_cast<unsigned>(blocks)); };
  const std::int64_t row_parts = workspace.heads * ((p.seqlen_q + prepare_rows - 1) / prepare_rows);
  static_assert(prepare_rows == convert_rows, "");
  launch("fa2 backward prepare", prepare_kernel<T>, grid(row_parts), prepare_threads, 0, stream, a);
  launch("fa2 backward",
         a.shape.dropout_threshold > 0 ? backward_kernel<T, WithDropout, true>
                                       : backward_kernel<T, Compiled, false>,
         grid(std::int64_t{p.batch} * p.heads_kv * a.col_blocks), Compiled::threads, Compiled::shared_bytes,
         stream, a);
  launch("fa2 backward convert", convert_kernel<T>, grid(row_parts), convert_threads,
         std::max(convert_rows * p.head_dim * 2, convert_threads * 8), stream, a);
}

/// The instance of backward_choices for the problem's head_dim.
template <class T>
void launch_chosen_backward(const Problem& p, const Tiling& t, const Tensors& x, void* stream) {
  const auto launch_choice = [&](auto index) {
    constexpr BackwardChoice c = backward_choices[decltype(index)::value];
    constexpr bool apart = c.split_s_warps != 0;
    using WithDropout = BackwardTiling<c.head_dim, c.block_q, c.block_k, c.warps, c.s_warps, c.key_warps,
                                       c.q_warps, c.blocks_per_sm>;
    using Compiled =
        BackwardTiling<c.head_dim, c.block_q, c.block_k, c.warps, apart ? c.split_s_warps : c.s_warps,
                       c.key_warps, c.q_warps, c.blocks_per_sm, apart>;
    launch_backward<T, Compiled, WithDropout>(p, t, x, stream);
  };
  switch (choice_of(padded_head_dim(p.head_dim))) {
    case 0: return launch_choice(std::integral_constant<int, 0>());
    case 1: return launch_choice(std::integral_constant<int, 1>());
    default: return launch_choice(std::integral_constant<int, 2>());
  }
}

}  // namespace flashsim::gpu::fa2

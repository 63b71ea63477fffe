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
#include "gpu_kernels/common/dropout.cuh"
#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/common/tile.cuh"
#include "gpu_kernels/common/visible.cuh"
#include "gpu_kernels/fa2/backward_rows.cuh"
#include "gpu_kernels/fa2/tilings.h"
#include "gpu_kernels/fa2/workspace.h"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::fa2 {

/// A compiled tiling. The three groups of products are shared among the warps in grids of their own:
/// S and dP: S_WARPS along the rows of Q, the others along keys; dK and dV: KEY_WARPS along keys, the others
/// along head_dim; dQ: Q_WARPS along the rows of Q, the others along head_dim.
template <int HEAD_DIM, int BLOCK_Q, int BLOCK_K, int WARPS, int S_WARPS, int KEY_WARPS, int Q_WARPS,
          int BLOCKS_PER_SM>
struct BackwardTiling {
  static constexpr int head_dim = HEAD_DIM, block_q = BLOCK_Q, block_k = BLOCK_K, warps = WARPS;
  static constexpr int threads = 32 * WARPS, blocks_per_sm = BLOCKS_PER_SM;
  static constexpr int s_rows = BLOCK_Q / S_WARPS, s_cols = BLOCK_K / (WARPS / S_WARPS);
  static constexpr int kv_rows = BLOCK_K / KEY_WARPS, kv_cols = HEAD_DIM / (WARPS / KEY_WARPS);
  static constexpr int q_rows = BLOCK_Q / Q_WARPS, q_cols = HEAD_DIM / (WARPS / Q_WARPS);
  static constexpr int s_warps = S_WARPS, key_warps = KEY_WARPS, q_warps = Q_WARPS;
  // Shared memory: K, V; two stages of Q, dO; P, dS; two stages of LSE, D.
  static constexpr int k_bytes = BLOCK_K * HEAD_DIM * 2, q_bytes = BLOCK_Q * HEAD_DIM * 2;
  static constexpr int p_bytes = BLOCK_Q * BLOCK_K * 2, row_bytes = BLOCK_Q * 4;
  static constexpr int shared_bytes = 2 * k_bytes + 4 * q_bytes + 2 * p_bytes + 4 * row_bytes;
  static_assert(s_rows % 16 == 0 && s_cols % 16 == 0 && kv_rows % 16 == 0 && kv_cols % 16 == 0 &&
                    q_rows % 16 == 0 && q_cols % 16 == 0,
                "warps share whole 16 x 16 blocks");
};

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

template <class T, class Compiled, bool DROPOUT>
__global__ void __launch_bounds__(Compiled::threads, resident_blocks<Compiled, DROPOUT>())
    backward_kernel(const BackwardParameters<T> p) {
  constexpr int D = Compiled::head_dim, BQ = Compiled::block_q, BK = Compiled::block_k;
  constexpr int threads = Compiled::threads;
  constexpr int SM = Compiled::s_rows / 16, SN = Compiled::s_cols / 8;    // S and dP of a warp
  constexpr int KM = Compiled::kv_rows / 16, KN = Compiled::kv_cols / 8;  // dK and dV
  constexpr int QM = Compiled::q_rows / 16, QN = Compiled::q_cols / 8;    // dQ
  extern __shared__ __align__(128) unsigned char shared[];

  const Shape& s = p.shape;
  const int thread = threadIdx.x;
  const unsigned warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32, g = lane >> 2, t = lane & 3;

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

  // LSE and D go past L1 as everything else does, where their rows come in 16-byte pieces.
  const bool whole_chunks = s.seqlen_q % 4 == 0;
  const auto load_rows = [&](int stage, int head, int i) {
    const int row = i * BQ, rows = s.seqlen_q - row;
    int64_t first = int64_t{head} * s.seqlen_q + row;
    asm volatile("" : "+l"(first));  // or the compiler keeps pointers per thread and tensor across the loop
    copy_tile_async<BQ, D, threads, (D < 256)>(q_tile + stage * Compiled::q_bytes, p.q + first * s.head_dim,
                                               rows, s.head_dim, thread);
    copy_tile_async<BQ, D, threads, (D < 256)>(do_tile + stage * Compiled::q_bytes,
                                               p.d_o + first * s.head_dim, rows, s.head_dim, thread);
    const uint32_t at = stage * Compiled::row_bytes + thread * (whole_chunks ? 16 : 4);
    if (whole_chunks) {
      if (thread < BQ / 4) {
        cp_async_16(lse_rows + at, p.lse + first + thread * 4, thread * 4 < rows);
        cp_async_16(d_rows + at, p.d + first + thread * 4, thread * 4 < rows);
      }
    } else if (thread < BQ) {
      cp_async_4(lse_rows + at, p.lse + first + thread, thread < rows);
      cp_async_4(d_rows + at, p.d + first + thread, thread < rows);
    }
  };

  float dk[KM][KN][4] = {}, dv[KM][KN][4] = {};
  int head = bh * s.group, block = first_block, stage = 0;
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

  const int s_row = warp % Compiled::s_warps * Compiled::s_rows;
  const int s_col = warp / Compiled::s_warps * Compiled::s_cols;
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
    const float* statistics = reinterpret_cast<const float*>(shared + (lse_rows - k_tile));
    if (thread < rows &&
        needs_repair(s, row + thread, statistics[stage * BQ + thread], statistics[(2 + stage) * BQ + thread]))
      *p.repair = 1;

    const uint32_t q_now = q_tile + stage * Compiled::q_bytes, do_now = do_tile + stage * Compiled::q_bytes;
    {
      // This warp's part of S and dP, and from them P and dS.
      constexpr int drawn = SN < 8 ? SN : 8;  // 8-column blocks, four bits each
      uint32_t kept[(SM * SN + 7) / 8] = {};
      if (DROPOUT) {
#pragma unroll
        for (int i = 0; i < SM; ++i)
#pragma unroll
          for (int n = 0; n < SN; n += drawn)
            kept[(i * SN + n) / 8] |= dropout_kept<drawn>(s.dropout_seed, s.dropout_threshold, head,
                                                          row + s_row + 16 * i + g, key + s_col + 8 * n, lane)
                                      << 4 * ((i * SN + n) % 8);
      }
      const auto keeps = [&](int i, int n, int e) {
        return is_kept(kept[(i * SN + n) / 8], (i * SN + n) % 8, e);
      };
      float prob[SM][SN][4] = {}, ds[SM][SN][4] = {};
      const auto q_at = rows_first<D>(q_now, s_row, lane), do_at = rows_first<D>(do_now, s_row, lane);
      const auto k_at = columns_first<D>(k_tile, s_col, lane), v_at = columns_first<D>(v_tile, s_col, lane);
      multiply<T, D / 16>(
          prob, [&](auto& a, int i, int c) { ldmatrix_x4(a, q_at(16 * i, 2 * c)); },
          [&](auto& b, int n, int c) { ldmatrix_x4(b, k_at(8 * n, 2 * c)); });
      multiply<T, D / 16>(
          ds, [&](auto& a, int i, int c) { ldmatrix_x4(a, do_at(16 * i, 2 * c)); },
          [&](auto& b, int n, int c) { ldmatrix_x4(b, v_at(8 * n, 2 * c)); });

#pragma unroll
      for (int i = 0; i < SM; ++i)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int at = stage * BQ + s_row + 16 * i + 8 * r + g;
          const float d = statistics[2 * BQ + at];
          const float lse = statistics[at] * 1.4426950408889634f;
#pragma unroll
          for (int n = 0; n < SN; ++n)
#pragma unroll
            for (int e = 2 * r; e < 2 * r + 2; ++e) {
              prob[i][n][e] = exp2_approx(fmaf(prob[i][n][e], s.scale_log2, -lse));
              if (DROPOUT) ds[i][n][e] = keeps(i, n, e) ? ds[i][n][e] * s.keep_scale : 0;
              ds[i][n][e] = prob[i][n][e] * (ds[i][n][e] - d);
              if (DROPOUT && !keeps(i, n, e)) prob[i][n][e] = 0;
            }
        }
      if (s.first_key(row + rows - 1) > key || s.end_key(row) < key + BK) {
        // Masked elements count for nothing, whatever their scores and gradients are. The only key of a row
        // has P = 1, hence dS = 0 exactly; dP - D would leave what the two sums round differently.
#pragma unroll
        for (int i = 0; i < SM; ++i)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const int query = row + s_row + 16 * i + 8 * r + g;
            const int begin = s.first_key(query) - key - s_col - 2 * t;
            const int end = s.end_key(query) - key - s_col - 2 * t;
            const bool only_key = end - begin == 1;
#pragma unroll
            for (int n = 0; n < SN; ++n)
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                const bool hidden = 8 * n + e < begin || 8 * n + e >= end;
                if (hidden) prob[i][n][2 * r + e] = 0;
                if (hidden || only_key) ds[i][n][2 * r + e] = 0;
              }
          }
      }
      const auto p_at = rows_first<BK>(p_tile, s_row, lane, s_col / 8);
      const auto ds_at = rows_first<BK>(ds_tile, s_row, lane, s_col / 8);
#pragma unroll
      for (int i = 0; i < SM; ++i)
#pragma unroll
        for (int n = 0; n < SN; n += 2) {
          const auto store = [&](uint32_t address, const float(&a)[4], const float(&b)[4]) {
            stmatrix_x4(address, pack<T>(a[0], a[1]), pack<T>(a[2], a[3]), pack<T>(b[0], b[1]),
                        pack<T>(b[2], b[3]));
          };
          store(p_at(16 * i, n), prob[i][n], prob[i][n + 1]);
          store(ds_at(16 * i, n), ds[i][n], ds[i][n + 1]);
        }
    }
    __syncthreads();  // P and dS are here

    {
      // dV += P^T dO and dK += dS^T Q
      const auto pt_at = columns_first<BK>(p_tile, 0, lane, kv_row / 8);
      const auto dst_at = columns_first<BK>(ds_tile, 0, lane, kv_row / 8);
      const auto do_at = rows_first<D>(do_now, 0, lane, kv_chunk),
                 q_at = rows_first<D>(q_now, 0, lane, kv_chunk);
      multiply<T, BQ / 16>(
          dv, [&](auto& a, int i, int c) { ldmatrix_x4_trans(a, pt_at(16 * c, 2 * i)); },
          [&](auto& b, int n, int c) { ldmatrix_x4_trans(b, do_at(16 * c, n)); });
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
    if (++block == end_block) block = first_block, ++head;
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

/// Launches the three kernels on `stream`; the problem has no fault and its padded head_dim is the tiling's.
template <class T, class Compiled>
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

  const auto grid = [](std::int64_t blocks) { return dim3(static_cast<unsigned>(blocks)); };
  const std::int64_t row_parts = workspace.heads * ((p.seqlen_q + prepare_rows - 1) / prepare_rows);
  static_assert(prepare_rows == convert_rows, "");
  launch("fa2 backward prepare", prepare_kernel<T>, grid(row_parts), prepare_threads, 0, stream, a);
  launch("fa2 backward",
         a.shape.dropout_threshold > 0 ? backward_kernel<T, Compiled, true>
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
    launch_backward<T, BackwardTiling<c.head_dim, c.block_q, c.block_k, c.warps, c.s_warps, c.key_warps,
                                      c.q_warps, c.blocks_per_sm>>(p, t, x, stream);
  };
  switch (choice_of(padded_head_dim(p.head_dim))) {
    case 0: return launch_choice(std::integral_constant<int, 0>());
    case 1: return launch_choice(std::integral_constant<int, 1>());
    default: return launch_choice(std::integral_constant<int, 2>());
  }
}

}  // namespace flashsim::gpu::fa2

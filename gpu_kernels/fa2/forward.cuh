// FlashAttention-2 forward (Dao 2023, Algorithm 1) on mma.sync.
//
// Idea: one thread block a row block of one head. Q stays on chip, tiles of K and V stream past it, O, l and
// m never leave registers, and O is divided by l once, at the end. Each warp owns rows of Q, so warps
// exchange nothing but the K and V tiles they all read.
//
// Traffic: Q once, every visible K and V tile once, O once, 4 bytes of LSE a row; all loads pass by L1.
//
// What still hurts: the products are issued by the warps that also compute the softmax, so tensor cores idle
// unless another warp of the same scheduler has products to issue; every K and V fragment is fetched from
// shared memory once a warp, and a warp has at most 32 rows to use it for. FA3's wgmma cures both.
#pragma once

#include <math_constants.h>

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/dropout.cuh"
#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/common/tile.cuh"
#include "gpu_kernels/fa2/non_finite.cuh"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::fa2 {

/// A compiled tiling. STAGES 1: one K and one V buffer; V(j) arrives during Q K(j)^T and K(j - 1) during the
/// softmax and P V(j). STAGES 2: K(j - 1) and V(j - 1) arrive during all of step j, one barrier a step.
/// Q_IN_REGISTERS keeps Q's fragments instead of fetching them from shared memory in every step.
/// BLOCKS_PER_SM bounds the registers.
template <int HEAD_DIM, int BLOCK_Q, int BLOCK_K, int WARPS, int STAGES, bool Q_IN_REGISTERS,
          int BLOCKS_PER_SM>
struct ForwardTiling {
  static constexpr int head_dim = HEAD_DIM, block_q = BLOCK_Q, block_k = BLOCK_K, warps = WARPS;
  static constexpr int stages = STAGES, threads = 32 * WARPS, blocks_per_sm = BLOCKS_PER_SM;
  static constexpr bool q_in_registers = Q_IN_REGISTERS;
  static constexpr int warp_rows = BLOCK_Q / WARPS;
  static constexpr int shared_bytes = (BLOCK_Q + 2 * STAGES * BLOCK_K) * HEAD_DIM * 2;
  static_assert(warp_rows == 16 || warp_rows == 32, "a warp owns one or two blocks of 16 rows");
  static_assert(STAGES == 1 || STAGES == 2, "");
};

template <class T>
struct ForwardParameters {
  Shape shape;
  const T *q, *k, *v;
  T* o;
  float* lse;
  int row_blocks;
  bool last_to_first;  ///< BlockOrder: the last row block of a head starts first
};

/// The maximum may grow by a factor 2^rescale_threshold in exp(S) before O and l are rescaled to it. P then
/// reaches 2^8 = 256, far from fp16's limit, with the same relative precision; the division by l undoes it.
constexpr float rescale_threshold = 8.0f;

/// Where the thread's row block and its keys lie.
template <class Compiled>
struct RowBlock {
  int batch, head, row, rows;  ///< rows: those that exist
  int first_tile, end_tile;    ///< visible tiles of K and V

  __device__ RowBlock(const Shape& s, int row_blocks, bool last_to_first) {
    const int x = blockIdx.x % row_blocks, bh = blockIdx.x / row_blocks;
    const int i = last_to_first ? row_blocks - 1 - x : x;
    batch = bh / s.heads_q, head = bh % s.heads_q;
    row = i * Compiled::block_q, rows = min(Compiled::block_q, s.seqlen_q - row);
    first_tile = s.first_key(row) / Compiled::block_k;
    end_tile = (s.end_key(row + rows - 1) + Compiled::block_k - 1) / Compiled::block_k;
  }
  /// Whether some of the rows do not see all keys of tile j, because the mask hides them or they do not
  /// exist.
  __device__ bool is_cut(const Shape& s, int j) const {
    const int key = j * Compiled::block_k;
    return s.first_key(row + rows - 1) > key || s.end_key(row) < key + Compiled::block_k;
  }
};

template <class T, class Compiled, bool DROPOUT>
__global__ void __launch_bounds__(Compiled::threads, Compiled::blocks_per_sm)
    forward_kernel(const ForwardParameters<T> p) {
  constexpr int D = Compiled::head_dim, BQ = Compiled::block_q, BK = Compiled::block_k;
  constexpr int threads = Compiled::threads, stages = Compiled::stages;
  constexpr int M = Compiled::warp_rows / 16;  // blocks of 16 rows a warp owns
  constexpr int N = BK / 8, K = D / 16;        // 8-column blocks of S; k-steps of Q K^T
  constexpr int stage_bytes = BK * D * 2;
  extern __shared__ __align__(128) unsigned char shared[];

  const Shape& s = p.shape;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const RowBlock<Compiled> block(s, p.row_blocks, p.last_to_first);
  const int64_t first_row = s.query_row(block.batch, block.head) + block.row;
  const int64_t first_key = s.key_row(block.batch, block.head / s.group);
  const T* k = p.k + first_key * s.head_dim;
  const T* v = p.v + first_key * s.head_dim;

  const uint32_t q_tile = shared_address(shared), k_tile = q_tile + BQ * D * 2;
  const uint32_t v_tile = k_tile + stages * stage_bytes;
  const int warp_row = warp * Compiled::warp_rows;
  const auto load = [&](uint32_t tile, const T* from, int j) {
    const int key = j * BK;
    from += int64_t{key} * s.head_dim;
    asm volatile("" : "+l"(from));  // or the compiler keeps a pointer per thread and tensor across the loop
    copy_tile_async<BK, D, threads, (D == 128 && !DROPOUT)>(tile, from, s.seqlen_k - key, s.head_dim, thread);
  };

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
    load(k_tile, k, end_tile - 1);
    if (stages == 2) load(v_tile, v, end_tile - 1);
    cp_async_commit();
  }

  const auto q_at = rows_first<D>(q_tile, warp_row, lane);
  uint32_t q[M][Compiled::q_in_registers ? K : 1][4];
  if (Compiled::q_in_registers) {
    cp_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int c = 0; c < K; ++c) ldmatrix_x4(q[i][c], q_at(16 * i, 2 * c));
  }

  int stage = 0;  // byte offset of the K and V tiles of this step
  for (int j = end_tile - 1; j >= first_tile; --j) {
    const int key = j * BK;
    const bool cut = block.is_cut(s, j);
    cp_async_wait<0>();
    if (stages == 2 && cut)
      non_finite |= zero_non_finite<BK, D, threads, T>(shared + (BQ + stages * BK) * D * 2 + stage);
    __syncthreads();  // K(j) is here, and nobody reads the tiles of step j + 1 any more
    if (stages == 1) {
      load(v_tile, v, j);
    } else if (j > first_tile) {
      load(k_tile + (stage ^ stage_bytes), k, j - 1);
      load(v_tile + (stage ^ stage_bytes), v, j - 1);
    }
    cp_async_commit();

    // What this warp's rows see of the tile: nothing, a part, or all of it.
    const int warp_first = block.row + warp_row;
    const int warp_last = block.row + min(warp_row + Compiled::warp_rows, block.rows) - 1;
    const bool sees =
        warp_first <= warp_last && s.first_key(warp_first) < key + BK && s.end_key(warp_last) > key;
    const bool partial = s.first_key(warp_last) > key || s.end_key(warp_first) < key + BK;

    // Dropout's bits are drawn while no S occupies registers.
    uint32_t kept[M][(N + 7) / 8];
    if (DROPOUT && sees) {
      const uint32_t head = block.batch * s.heads_q + block.head;
      int lane;  // read again rather than kept: on sm_80 this is what saves spilled registers
      asm volatile("mov.u32 %0, %%laneid;\n" : "=r"(lane));
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int n = 0; n < N; n += 8)
          kept[i][n / 8] = dropout_kept<(N < 8 ? N : 8)>(s.dropout_seed, s.dropout_threshold, head,
                                                         warp_first + 16 * i + lane / 4, key + 8 * n, lane);
    }

    float score[M][N][4];  // S, then P: (warp_rows, BK)
    if (sees) {
      // S = Q K^T
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) score[i][n][e] = 0;
      const auto k_at = columns_first<D>(k_tile + stage, 0, lane);
#pragma unroll
      for (int c = 0; c < K; ++c) {
        constexpr bool kept = Compiled::q_in_registers;
        if (!kept) {
#pragma unroll
          for (int i = 0; i < M; ++i) ldmatrix_x4(q[i][0], q_at(16 * i, 2 * c));
        }
#pragma unroll
        for (int n = 0; n < N; n += 2) {
          uint32_t b[4];
          ldmatrix_x4(b, k_at(8 * n, 2 * c));
#pragma unroll
          for (int i = 0; i < M; ++i) {
            mma_m16n8k16<T>(score[i][n], q[i][kept ? c : 0], b[0], b[1]);
            mma_m16n8k16<T>(score[i][n + 1], q[i][kept ? c : 0], b[2], b[3]);
          }
        }
      }
    }
    if (stages == 1) {
      cp_async_wait<0>();
      if (cut) non_finite |= zero_non_finite<BK, D, threads, T>(shared + (BQ + BK) * D * 2);
      __syncthreads();  // V(j) is here, and nobody reads K(j) any more
      if (j > first_tile) load(k_tile, k, j - 1);
      cp_async_commit();
    }
    if (sees) {
      if (partial) {
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const int row = warp_first + 16 * i + 8 * r + g;
            const int begin = s.first_key(row) - key - 2 * t, end = s.end_key(row) - key - 2 * t;
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
              for (int e = 0; e < 2; ++e)
                if (8 * n + e < begin || 8 * n + e >= end) score[i][n][2 * r + e] = -CUDART_INF_F;
          }
      }
      // The new maximum, and the rescaling of O and l to it.
      float m_new[M][2];
      bool grows = false;
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float x = fmaxf(score[i][0][2 * r], score[i][0][2 * r + 1]);
#pragma unroll
          for (int n = 1; n < N; ++n) x = fmaxf(x, fmaxf(score[i][n][2 * r], score[i][n][2 * r + 1]));
          m_new[i][r] = fmaxf(m[i][r], quad_max(x));
          grows |= (m_new[i][r] - m[i][r]) * s.scale_log2 > rescale_threshold;
        }
      if (__any_sync(0xffffffffu, grows)) {
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const float shift = m_new[i][r] == -CUDART_INF_F ? 0.0f : m_new[i][r];
            const float correction = exp2_approx((m[i][r] - shift) * s.scale_log2);
            m[i][r] = m_new[i][r];
            l[i][r] *= correction;
#pragma unroll
            for (int d = 0; d < D / 8; ++d) {
              o[i][d][2 * r] *= correction;
              o[i][d][2 * r + 1] *= correction;
            }
          }
      }
      // P = exp(S - m), its row sums, dropout, and O += P V, 16 keys at a time.
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
              if (!is_kept(kept[i][n / 8], n % 8, e)) score[i][n][e] = 0;
      }
      uint32_t prob[M][BK / 16][4];
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int c = 0; c < BK / 16; ++c) {
          prob[i][c][0] = pack<T>(score[i][2 * c][0], score[i][2 * c][1]);
          prob[i][c][1] = pack<T>(score[i][2 * c][2], score[i][2 * c][3]);
          prob[i][c][2] = pack<T>(score[i][2 * c + 1][0], score[i][2 * c + 1][1]);
          prob[i][c][3] = pack<T>(score[i][2 * c + 1][2], score[i][2 * c + 1][3]);
        }
      const auto v_at = rows_first<D>(v_tile + stage, 0, lane);
#pragma unroll
      for (int c = 0; c < BK / 16; ++c)
#pragma unroll
        for (int d = 0; d < D / 8; d += 2) {
          uint32_t b[4];
          ldmatrix_x4_trans(b, v_at(16 * c, d));
#pragma unroll
          for (int i = 0; i < M; ++i) {
            mma_m16n8k16<T>(o[i][d], prob[i][c], b[0], b[1]);
            mma_m16n8k16<T>(o[i][d + 1], prob[i][c], b[2], b[3]);
          }
        }
    }
    if (stages == 2) stage ^= stage_bytes;
  }

  // O / l and LSE. Each warp passes its rows through its own part of Q's tile, so that stores are whole
  // lines.
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = warp_row + 16 * i + 8 * r + g;
      const float sum = quad_sum(l[i][r]);  // 0: the row sees nothing, or only scores of -inf
      const float factor = sum == 0.0f ? 0.0f : s.keep_scale / sum;
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        o[i][d][2 * r] *= factor;
        o[i][d][2 * r + 1] *= factor;
      }
      if (t == 0 && row < block.rows)
        p.lse[first_row + row] = sum == 0.0f ? -CUDART_INF_F : m[i][r] * s.scale + logf(sum);
    }
  __syncwarp();  // all lanes have fetched this warp's rows of Q
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int d = 0; d < D / 8; d += 2)
      stmatrix_x4(q_at(16 * i, d), pack<T>(o[i][d][0], o[i][d][1]), pack<T>(o[i][d][2], o[i][d][3]),
                  pack<T>(o[i][d + 1][0], o[i][d + 1][1]), pack<T>(o[i][d + 1][2], o[i][d + 1][3]));
  __syncwarp();
  store_tile<Compiled::warp_rows, D, 32>(p.o + (first_row + warp_row) * s.head_dim, shared + warp_row * D * 2,
                                         block.rows - warp_row, s.head_dim, lane);
  if (__syncthreads_or(non_finite))
    for (int j = first_tile; j < end_tile; ++j)
      if (block.is_cut(s, j))
        restore_o<threads>(s, block.row, block.rows, j * BK, (j + 1) * BK, v, p.lse + first_row,
                           p.o + first_row * s.head_dim);
}

template <class T>
ForwardParameters<T> forward_parameters(const Problem& p, int block_q, BlockOrder order, const Tensors& x) {
  ForwardParameters<T> parameters;
  parameters.shape = shape_of(p);
  parameters.q = static_cast<const T*>(x.q);
  parameters.k = static_cast<const T*>(x.k);
  parameters.v = static_cast<const T*>(x.v);
  parameters.o = static_cast<T*>(x.o);
  parameters.lse = x.lse;
  parameters.row_blocks = (p.seqlen_q + block_q - 1) / block_q;
  parameters.last_to_first = order == BlockOrder::last_to_first;
  return parameters;
}

template <class T>
dim3 grid_of(const Problem& p, const ForwardParameters<T>& parameters) {
  return dim3(static_cast<unsigned>(std::int64_t{p.batch} * p.heads_q * parameters.row_blocks));
}

/// Launches on `stream`; the problem has no fault and its padded head_dim is the tiling's.
template <class T, class Compiled>
void launch_forward(const Problem& p, BlockOrder order, const Tensors& x, void* stream) {
  const ForwardParameters<T> parameters = forward_parameters<T>(p, Compiled::block_q, order, x);
  const auto kernel = parameters.shape.dropout_threshold > 0 ? forward_kernel<T, Compiled, true>
                                                             : forward_kernel<T, Compiled, false>;
  launch("fa2 forward", kernel, grid_of(p, parameters), Compiled::threads, Compiled::shared_bytes, stream,
         parameters);
}

}  // namespace flashsim::gpu::fa2

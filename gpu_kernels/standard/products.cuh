// The tile products of standard attention: three kernels on one block of 8 warps and 128 x 128 tiles of S.
//
//   tile_product    C(i, j) = scale A_i B_j^T             S = Q K^T and dP = dO V^T
//   row_product     C_i = scale sum_j M(i, j) B_j         O = P V and dQ = dS K
//   column_product  C_j = scale sum_i M(i, j)^T B_i       dV = P^T dO and dK = dS^T Q
//
// Requested bytes (e = bytes of an element, d = head_dim, tiles that the mask hides completely are skipped;
// r_i and c_j are the rows and columns of the tile, smaller at the ends), per query head:
//   tile_product    sum over visible tiles of e (r_i d + c_j d) read, e r_i c_j written
//   row_product     sum over visible tiles of e (r_i c_j + c_j d) read; e n_q d written
//   column_product  sum over visible tiles of e (r_i c_j + r_i d) read; e n_k d written once per K/V head
// Rows of S, P, dP and dS begin at 32-byte sectors (cpu_reference/score_layout.h), so c_j of the last tile
// counts as rounded up to a whole sector, and every access is a vector of 16 bytes.
//
// What still hurts: nothing overlaps within a thread block (loads, then products); other blocks of the SM
// fill the gap.
#pragma once

#include "gpu_kernels/common/block_gemm.cuh"
#include "gpu_kernels/common/visible.cuh"
#include "gpu_kernels/standard/standard.h"

namespace flashsim::gpu::standard {

constexpr int kThreads = 256;
constexpr int kWarpsDown = 4, kWarpsAcross = 2;  ///< the 8 warps' grid over a result tile

template <class T>
struct ProductArguments {
  const T* a;  ///< tile_product: (heads_q, n_q, d); else M: (heads_q, n_q, n_k)
  const T* b;  ///< (heads_kv, n_k, d) where B's rows are keys, (heads_q, n_q, d) where they are queries
  T* c;
  float scale;
  float hidden;  ///< tile_product: what elements become that the mask hides within a visible tile
  int pitch;     ///< elements from a row of the n_q x n_k matrix to the next
};

/// Starts to load `rows` x `cols` elements of S, P, dP or dS into a tile whose other elements become zero.
template <class T>
__device__ __forceinline__ void load_matrix_tile(T* tile, const T* source, int pitch, int rows, int cols) {
  constexpr int chunks = kBlock / 8;
  const uint32_t base = shared_address(tile);
#pragma unroll
  for (int start = 0; start < kBlock * chunks; start += kThreads) {
    const int row = (start + threadIdx.x) / chunks, chunk = (start + threadIdx.x) % chunks;
    const int there = row < rows ? max(0, min(8, cols - chunk * 8)) : 0;
    cp_async_16_part(base + swizzled<kBlock>(row, chunk),
                     there > 0 ? source + static_cast<std::int64_t>(row) * pitch + chunk * 8 : source,
                     there * static_cast<int>(sizeof(T)));
  }
}

/// Writes `rows` x `cols` elements of a tile, `cols` a multiple of 8: with what pads the rows in memory.
template <class T>
__device__ __forceinline__ void store_matrix_tile(T* target, int pitch, int rows, int cols, const T* tile) {
  constexpr int chunks = kBlock / 8;
#pragma unroll
  for (int start = 0; start < kBlock * chunks; start += kThreads) {
    const int row = (start + threadIdx.x) / chunks, chunk = (start + threadIdx.x) % chunks;
    if (row < rows && chunk * 8 < cols)
      *reinterpret_cast<uint4*>(target + static_cast<std::int64_t>(row) * pitch + chunk * 8) =
          *reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(tile) + swizzled<kBlock>(row, chunk));
  }
}

template <int kRows, int kCols>
__device__ __forceinline__ FragmentPosition warp_position() {
  const int warp = threadIdx.x / 32;
  return {warp / kWarpsAcross * (kRows / kWarpsDown), warp % kWarpsAcross * (kCols / kWarpsAcross)};
}

template <class T, int kDim>
constexpr int tile_product_shared() {
  return sizeof(T) * kBlock * (2 * kDim > kBlock ? 2 * kDim : kBlock);
}
template <class T, int kDim>
constexpr int sum_product_shared() {
  return sizeof(T) * kBlock * (kBlock + kDim);
}

/// Grid: heads_q * row blocks * column blocks, column blocks fastest.
template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, kDim == 64 ? 2 : 1) tile_product(Shape p, ProductArguments<T> x) {
  extern __shared__ uint4 shared[];
  T* const a = reinterpret_cast<T*>(shared);
  T* const b = a + kBlock * kDim;
  T* const c = a;  // takes A's and B's room
  const int col_blocks = ceil_div(p.seqlen_k, kBlock), row_blocks = ceil_div(p.seqlen_q, kBlock);
  const int k0 = blockIdx.x % col_blocks * kBlock, q0 = blockIdx.x / col_blocks % row_blocks * kBlock;
  const std::int64_t head = blockIdx.x / col_blocks / row_blocks, head_kv = head / p.group;
  const int rows = min(kBlock, p.seqlen_q - q0), cols = min(kBlock, p.seqlen_k - k0);
  const BlockRange visible = visible_cols(p, q0, q0 + rows, kBlock);
  if (k0 / kBlock < visible.first || k0 / kBlock >= visible.end) return;

  copy_tile_async<kBlock, kDim, kThreads>(shared_address(a), x.a + (head * p.seqlen_q + q0) * p.head_dim,
                                          rows, p.head_dim, threadIdx.x);
  copy_tile_async<kBlock, kDim, kThreads>(shared_address(b), x.b + (head_kv * p.seqlen_k + k0) * p.head_dim,
                                          cols, p.head_dim, threadIdx.x);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();

  const FragmentPosition at = warp_position<kBlock, kBlock>();
  constexpr int mt = kBlock / kWarpsDown / 16, nt = kBlock / kWarpsAcross / 8;
  float acc[mt][nt][4];
  clear(acc);
  warp_gemm<T, Stored::by_outer, kDim, Stored::by_outer, kDim, kDim>(acc, a, b, at);
#pragma unroll
  for (int i = 0; i < mt; ++i)
#pragma unroll
    for (int j = 0; j < nt; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] *= x.scale;
  if (!sees_all(p, q0, q0 + rows, k0, k0 + cols)) {
#pragma unroll
    for (int i = 0; i < mt; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int q = q0 + at.row(i, e), first = p.first_key(q), end = p.end_key(q);
#pragma unroll
        for (int j = 0; j < nt; ++j) {
          const int k = k0 + at.col(j, e);
          if (k < first || k >= end) acc[i][j][e] = x.hidden;
        }
      }
  }
  __syncthreads();
  put_fragments<kBlock>(c, acc, at);
  __syncthreads();
  store_matrix_tile(x.c + (head * p.seqlen_q + q0) * x.pitch + k0, x.pitch, rows, min(kBlock, x.pitch - k0),
                    c);
}

/// Grid: heads_q * row blocks, row blocks fastest.
template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, 1) row_product(Shape p, ProductArguments<T> x) {
  extern __shared__ uint4 shared[];
  T* const m = reinterpret_cast<T*>(shared);
  T* const b = m + kBlock * kBlock;
  T* const c = m;
  const int row_blocks = ceil_div(p.seqlen_q, kBlock);
  const int q0 = blockIdx.x % row_blocks * kBlock;
  const std::int64_t head = blockIdx.x / row_blocks, head_kv = head / p.group;
  const int rows = min(kBlock, p.seqlen_q - q0);
  const BlockRange visible = visible_cols(p, q0, q0 + rows, kBlock);

  const FragmentPosition at = warp_position<kBlock, kDim>();
  float acc[kBlock / kWarpsDown / 16][kDim / kWarpsAcross / 8][4];
  clear(acc);
  for (int j = visible.first; j < visible.end; ++j) {
    const int k0 = j * kBlock, cols = min(kBlock, p.seqlen_k - k0);
    __syncthreads();
    load_matrix_tile(m, x.a + (head * p.seqlen_q + q0) * x.pitch + k0, x.pitch, rows, cols);
    copy_tile_async<kBlock, kDim, kThreads>(shared_address(b), x.b + (head_kv * p.seqlen_k + k0) * p.head_dim,
                                            cols, p.head_dim, threadIdx.x);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    if (!sees_all(p, q0, q0 + rows, k0, k0 + cols) && tile_is_nonfinite<kBlock, kDim, kThreads>(b))
      warp_gemm_visible<T, Stored::by_outer, kBlock, kDim>(
          acc, m, b, at, cols, [&](int row, int key) { return row < rows && sees(p, q0 + row, k0 + key); });
    else
      warp_gemm<T, Stored::by_outer, kBlock, Stored::by_inner, kDim, kBlock>(acc, m, b, at);
  }
  __syncthreads();
  put_fragments<kDim>(c, acc, at, x.scale);
  __syncthreads();
  store_tile<kBlock, kDim, kThreads>(x.c + (head * p.seqlen_q + q0) * p.head_dim,
                                     reinterpret_cast<const unsigned char*>(c), rows, p.head_dim,
                                     threadIdx.x);
}

/// Grid: heads_kv * column blocks, column blocks fastest.
template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, 1) column_product(Shape p, ProductArguments<T> x) {
  extern __shared__ uint4 shared[];
  T* const m = reinterpret_cast<T*>(shared);
  T* const b = m + kBlock * kBlock;
  T* const c = m;
  const int col_blocks = ceil_div(p.seqlen_k, kBlock);
  const int k0 = blockIdx.x % col_blocks * kBlock;
  const std::int64_t head_kv = blockIdx.x / col_blocks;
  const int cols = min(kBlock, p.seqlen_k - k0);
  const BlockRange visible = visible_rows(p, k0, k0 + cols, kBlock);

  const FragmentPosition at = warp_position<kBlock, kDim>();
  float acc[kBlock / kWarpsDown / 16][kDim / kWarpsAcross / 8][4];
  clear(acc);
  for (int h = 0; h < p.group; ++h) {
    const std::int64_t head = head_kv * p.group + h;
    for (int i = visible.first; i < visible.end; ++i) {
      const int q0 = i * kBlock, rows = min(kBlock, p.seqlen_q - q0);
      __syncthreads();
      load_matrix_tile(m, x.a + (head * p.seqlen_q + q0) * x.pitch + k0, x.pitch, rows, cols);
      copy_tile_async<kBlock, kDim, kThreads>(shared_address(b), x.b + (head * p.seqlen_q + q0) * p.head_dim,
                                              rows, p.head_dim, threadIdx.x);
      cp_async_commit();
      cp_async_wait<0>();
      __syncthreads();
      if (!sees_all(p, q0, q0 + rows, k0, k0 + cols) && tile_is_nonfinite<kBlock, kDim, kThreads>(b))
        warp_gemm_visible<T, Stored::by_inner, kBlock, kDim>(
            acc, m, b, at, rows, [&](int key, int row) { return key < cols && sees(p, q0 + row, k0 + key); });
      else
        warp_gemm<T, Stored::by_inner, kBlock, Stored::by_inner, kDim, kBlock>(acc, m, b, at);
    }
  }
  __syncthreads();
  put_fragments<kDim>(c, acc, at, x.scale);
  __syncthreads();
  store_tile<kBlock, kDim, kThreads>(x.c + (head_kv * p.seqlen_k + k0) * p.head_dim,
                                     reinterpret_cast<const unsigned char*>(c), cols, p.head_dim,
                                     threadIdx.x);
}

}  // namespace flashsim::gpu::standard

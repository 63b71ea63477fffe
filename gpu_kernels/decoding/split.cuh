// Flash-Decoding, first kernel: one part of the keys for up to 16 packed rows.
//
// Packed rows: row r = query * group + head in group, so that all query heads of one K/V head (and several
// queries) share every byte of K and V, and the 16 rows that mma.sync computes anyway are filled. The four
// warps of a thread block take 16 (or 32) keys each of every tile, with a ring of buffers, a maximum, a sum
// and an accumulator of their own: nothing but the end needs the whole block, so loads stream without
// barriers.
#pragma once

#include "gpu_kernels/common/block_gemm.cuh"
#include "gpu_kernels/common/visible.cuh"
#include "gpu_kernels/decoding/splits.h"

namespace flashsim::gpu::decoding {

constexpr int kRows = 16;  ///< packed rows of a thread block
constexpr int kWarps = 4, kThreads = 32 * kWarps;

/// Keys of a warp in a tile, and buffers in its ring of K and V tiles: about 64 KB on their way per thread
/// block.
constexpr int keys_per_warp(int dim) { return dim == 64 ? 32 : 16; }
constexpr int stages(int dim) { return dim == 256 ? 2 : 3; }
constexpr int block_k(int dim) { return kWarps * keys_per_warp(dim); }

template <class T>
struct Arguments {
  const T *q, *k, *v;
  T* o;
  float* lse;       ///< may be null
  float* o_part;    ///< (batch * heads_kv, packed rows, splits, head_dim); null: one split, O is written
  float* lse_part;  ///< (batch * heads_kv, packed rows, splits)
  int splits, tiles_per_split;
};

/// Row of (batch, heads_q, seqlen_q) that packed row r of K/V head `head_kv` (counted over the batch) stands
/// for.
__device__ __forceinline__ std::int64_t query_row(const Shape& s, std::int64_t head_kv, int r) {
  return (head_kv * s.group + r % s.group) * s.seqlen_q + r / s.group;
}

template <class T, int kDim>
struct Shared {
  static constexpr int keys = keys_per_warp(kDim);
  T q[kRows * kDim];
  T p[kWarps][kRows * 64];  // only for tiles with Inf or NaN in V
  union {
    struct {
      T k[stages(kDim)][keys * kDim], v[stages(kDim)][keys * kDim];
    } ring[kWarps];
    float o[kWarps][kRows][kDim];  // at the end: every warp's accumulator
  };
  float maximum[kWarps][kRows], sum[kWarps][kRows];
};

/// Starts a warp's copy of `rows` rows of `head_dim` values; what pads the tile is zero.
template <int kKeys, int kDim, class T>
__device__ __forceinline__ void copy_rows_async(T* tile, const T* source, int rows, int head_dim, int lane) {
  constexpr int chunks = kDim / 8;
  const uint32_t target = shared_address(tile);
#pragma unroll
  for (int i = 0; i < kKeys * chunks; i += 32) {
    const int row = (i + lane) / chunks, chunk = (i + lane) % chunks;
    const bool valid = row < rows && chunk * 8 < head_dim;
    cp_async_16(target + swizzled<kDim>(row, chunk), valid ? source + row * head_dim + chunk * 8 : source,
                valid);
  }
}

/// Grid: batch * heads_kv * splits * row blocks, row blocks fastest (they share K and V in L2).
template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, decoding_blocks_per_sm(kDim))
    split_kernel(Shape s, Arguments<T> x) {
  constexpr int keys = keys_per_warp(kDim), ring_stages = stages(kDim), tile_keys = block_k(kDim);
  extern __shared__ uint4 shared_memory[];
  auto& shared = *reinterpret_cast<Shared<T, kDim>*>(shared_memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int packed_rows = s.seqlen_q * s.group, row_blocks = ceil_div(packed_rows, kRows);
  const int row0 = blockIdx.x % row_blocks * kRows, split = blockIdx.x / row_blocks % x.splits;
  const std::int64_t head_kv = blockIdx.x / row_blocks / x.splits;
  const int rows = min(kRows, packed_rows - row0);

  // Tiles of this split that some row sees.
  const int q_first = row0 / s.group, q_last = (row0 + rows - 1) / s.group;
  const BlockRange visible = visible_cols(s, q_first, q_last + 1, tile_keys);
  const int tile_begin = max(visible.first, split * x.tiles_per_split);
  const int tile_end = min(visible.end, (split + 1) * x.tiles_per_split);

  auto& ring = shared.ring[warp];
  const T* const k_head = x.k + head_kv * s.seqlen_k * s.head_dim;
  const T* const v_head = x.v + head_kv * s.seqlen_k * s.head_dim;
  const auto load = [&](T* tile, const T* head, int t) {  // always commits: the waits count groups
    const int key0 = t * tile_keys + warp * keys;
    if (t < tile_end)
      copy_rows_async<keys, kDim>(tile, head + std::int64_t{key0} * s.head_dim, s.seqlen_k - key0, s.head_dim,
                                  lane);
    cp_async_commit();
  };

  for (int at = threadIdx.x; at < kRows * kDim / 8; at += kThreads) {
    const int row = at / (kDim / 8), chunk = at % (kDim / 8);
    const bool valid = row < rows && chunk * 8 < s.head_dim;
    const T* const source = x.q + query_row(s, head_kv, row0 + (row < rows ? row : 0)) * s.head_dim;
    cp_async_16(shared_address(shared.q) + swizzled<kDim>(row, chunk), valid ? source + chunk * 8 : source,
                valid);
  }
  cp_async_commit();
#pragma unroll
  for (int i = 0; i < ring_stages; ++i) {
    load(ring.k[i], k_head, tile_begin + i);
    load(ring.v[i], v_head, tile_begin + i);
  }
  cp_async_wait<2 * ring_stages>();  // Q
  __syncthreads();

  float o[1][kDim / 8][4], maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  clear(o);
  // Rows that pad the block see what the last real row sees; they are never stored.
  int first[2], end[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int q = (row0 + min(lane / 4 + 8 * h, rows - 1)) / s.group;
    first[h] = s.first_key(q), end[h] = s.end_key(q);
  }
  const int all_first = s.first_key(q_last), all_end = s.end_key(q_first);
  const FragmentPosition at{0, 0};

  for (int t = tile_begin, slot = 0; t < tile_end; ++t, slot = slot + 1 == ring_stages ? 0 : slot + 1) {
    const int key0 = t * tile_keys + warp * keys;
    T *const k_tile = ring.k[slot], *const v_tile = ring.v[slot];
    float p[1][keys / 8][4];
    clear(p);
    cp_async_wait<2 * ring_stages - 1>();  // K of this tile
    __syncwarp();
    warp_gemm<T, Stored::by_outer, kDim, Stored::by_outer, kDim, kDim>(p, shared.q, k_tile, at);
    __syncwarp();
    load(k_tile, k_head, t + ring_stages);

    const bool partly_hidden = key0 < all_first || key0 + keys > all_end;
    if (partly_hidden) {
#pragma unroll
      for (int j = 0; j < keys / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int key = key0 + at.col(j, e);
          if (key < first[e / 2] || key >= end[e / 2]) p[0][j][e] = -INFINITY;
        }
    }
    float tile_maximum[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int j = 0; j < keys / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) tile_maximum[e / 2] = fmaxf(tile_maximum[e / 2], p[0][j][e]);
    bool grew = false;
    float correction[2], base[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float new_maximum = fmaxf(maximum[h], quad_max(tile_maximum[h]));
      const float shown = new_maximum == -INFINITY ? 0 : new_maximum;
      grew |= new_maximum > maximum[h];
      correction[h] = exp2_approx((maximum[h] - shown) * s.scale_log2);
      base[h] = shown * s.scale_log2;
      maximum[h] = new_maximum;
    }
    if (__any_sync(0xffffffffu, grew)) {
      sum[0] *= correction[0], sum[1] *= correction[1];
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) o[0][n][e] *= correction[e / 2];
    }
#pragma unroll
    for (int j = 0; j < keys / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        p[0][j][e] = exp2_approx(fmaf(p[0][j][e], s.scale_log2, -base[e / 2]));
        sum[e / 2] += p[0][j][e];
      }

    cp_async_wait<2 * ring_stages - 1>();  // V of this tile
    __syncwarp();
    bool nonfinite = false;
    if (partly_hidden) {
      for (int i = lane; i < keys * kDim / 2; i += 32)
        nonfinite |= pair_is_nonfinite<T>(reinterpret_cast<const uint32_t*>(v_tile)[i]);
      nonfinite = __any_sync(0xffffffffu, nonfinite);
    }
    if (nonfinite) {
      T* const p_tile = shared.p[warp];
      put_fragments<64>(p_tile, p, at);
      __syncwarp();
      warp_gemm_visible<T, Stored::by_outer, 64, kDim>(o, p_tile, v_tile, at, keys, [&](int row, int k) {
        const int h = row >= 8;
        return key0 + k >= first[h] && key0 + k < end[h];
      });
    } else {
      const FragmentAddress<kDim> v_at = rows_first<kDim>(shared_address(v_tile), 0, lane);
#pragma unroll
      for (int k = 0; k < keys; k += 16) {
        const int j = k / 8;
        const uint32_t a[4] = {pack<T>(p[0][j][0], p[0][j][1]), pack<T>(p[0][j][2], p[0][j][3]),
                               pack<T>(p[0][j + 1][0], p[0][j + 1][1]),
                               pack<T>(p[0][j + 1][2], p[0][j + 1][3])};
#pragma unroll
        for (int n = 0; n < kDim / 8; n += 2) {
          uint32_t b[4];
          ldmatrix_x4_trans(b, v_at(k, n));
          mma_m16n8k16<T>(o[0][n], a, b[0], b[1]);
          mma_m16n8k16<T>(o[0][n + 1], a, b[2], b[3]);
        }
      }
    }
    __syncwarp();
    load(v_tile, v_head, t + ring_stages);
  }

  // The warps' parts are merged: common maximum, corrected sums, then the accumulators side by side.
  cp_async_wait<0>();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] = quad_sum(sum[h]);
    if (lane % 4 == 0) {
      shared.maximum[warp][lane / 4 + 8 * h] = maximum[h];
      shared.sum[warp][lane / 4 + 8 * h] = sum[h];
    }
  }
  __syncthreads();  // also: the rings are no longer used
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = lane / 4 + 8 * h;
    float all_maximum = -INFINITY, all_sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) all_maximum = fmaxf(all_maximum, shared.maximum[w][row]);
    const float shown = all_maximum == -INFINITY ? 0 : all_maximum;
#pragma unroll
    for (int w = 0; w < kWarps; ++w)
      all_sum += shared.sum[w][row] * exp2_approx((shared.maximum[w][row] - shown) * s.scale_log2);
    const float factor =
        all_sum == 0 ? 0 : exp2_approx((maximum[h] - shown) * s.scale_log2) * __fdividef(1, all_sum);
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
      *reinterpret_cast<float2*>(&shared.o[warp][row][at.col(n, 0)]) =
          make_float2(o[0][n][2 * h] * factor, o[0][n][2 * h + 1] * factor);
    if (warp == 0 && lane % 4 == 0 && row < rows) {
      const float lse = all_sum == 0 ? -INFINITY : all_maximum * s.scale + __logf(all_sum);
      if (x.o_part != nullptr)
        x.lse_part[(head_kv * packed_rows + row0 + row) * x.splits + split] = lse;
      else if (x.lse != nullptr)
        x.lse[query_row(s, head_kv, row0 + row)] = lse;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kDim / 4; i += kThreads) {
    const int row = i / (kDim / 4), col = i % (kDim / 4) * 4;
    if (row >= rows || col >= s.head_dim) continue;
    float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float4 part = *reinterpret_cast<const float4*>(&shared.o[w][row][col]);
      total.x += part.x, total.y += part.y, total.z += part.z, total.w += part.w;
    }
    if (x.o_part != nullptr) {
      const std::int64_t part_row = (head_kv * packed_rows + row0 + row) * x.splits + split;
      *reinterpret_cast<float4*>(x.o_part + part_row * s.head_dim + col) = total;
    } else {
      *reinterpret_cast<uint2*>(x.o + query_row(s, head_kv, row0 + row) * s.head_dim + col) =
          make_uint2(pack<T>(total.x, total.y), pack<T>(total.z, total.w));
    }
  }
}

}  // namespace flashsim::gpu::decoding

// Tiles of 16-bit numbers in swizzled shared memory and the products of such tiles on mma.sync.
//
// Four ways to store the operands cover every product of attention: Q K^T, P V, P^T dO, dO V^T, dS K, dS^T Q.
// All tiles are stored as they lie in memory (rows of 16-byte chunks); a transpose happens in ldmatrix, never
// in memory.
#pragma once

#include <type_traits>

#include "gpu_kernels/common/tile.cuh"

namespace flashsim::gpu {

/// Element (row, col) of a swizzled tile.
template <int kCols, class T>
__device__ __forceinline__ T& element(T* tile, int row, int col) {
  static_assert(sizeof(T) == 2, "tiles hold 16-bit elements");
  return tile[swizzled<kCols>(row, col / 8) / 2 + col % 8];
}

/// How an operand lies in shared memory. For A (m x k): rows are m, or k (its transpose is stored). For B (k
/// x n): rows are n (so that A B^T is computed, as in Q K^T), or k.
enum class Stored { by_outer, by_inner };  // outer: m or n; inner: k, the dimension that is summed

/// Where the accumulators of one thread lie in a warp's part of the result: element e of mma tile (mt, nt).
struct FragmentPosition {
  int row0, col0;  ///< of the warp's part, in the tile
  int lane = static_cast<int>(threadIdx.x % 32);
  __device__ __forceinline__ int row(int mt, int e) const {
    return row0 + mt * 16 + (e >= 2 ? 8 : 0) + lane / 4;
  }
  __device__ __forceinline__ int col(int nt, int e) const { return col0 + nt * 8 + (e & 1) + lane % 4 * 2; }
};

/// acc += A B for one warp: rows row0 ... row0 + 16 kMt - 1, columns col0 ... col0 + 8 kNt - 1, summed over
/// kInner. kColsA, kColsB: columns of the tiles in shared memory.
template <class T, Stored kA, int kColsA, Stored kB, int kColsB, int kInner, int kMt, int kNt>
__device__ __forceinline__ void warp_gemm(float (&acc)[kMt][kNt][4], const T* a_tile, const T* b_tile,
                                          FragmentPosition at) {
  static_assert(kNt % 2 == 0 && kInner % 16 == 0, "B is fetched 16 x 16 elements at a time");
  const int lane = at.lane;
  const uint32_t a_base = shared_address(a_tile), b_base = shared_address(b_tile);
  const auto a_at = kA == Stored::by_outer ? rows_first<kColsA>(a_base, at.row0, lane)
                                           : columns_first<kColsA>(a_base, 0, lane);
  const auto b_at = kB == Stored::by_outer ? columns_first<kColsB>(b_base, at.col0, lane)
                                           : rows_first<kColsB>(b_base, 0, lane);
#pragma unroll
  for (int k = 0; k < kInner; k += 16) {
    uint32_t a[kMt][4];
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
      if (kA == Stored::by_outer)
        ldmatrix_x4(a[mt], a_at(mt * 16, k / 8));
      else
        ldmatrix_x4_trans(a[mt], a_at(k, at.row0 / 8 + mt * 2));
#pragma unroll
    for (int nt = 0; nt < kNt; nt += 2) {
      uint32_t b[4];
      if (kB == Stored::by_outer)
        ldmatrix_x4(b, b_at(nt * 8, k / 8));
      else
        ldmatrix_x4_trans(b, b_at(k, at.col0 / 8 + nt));
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt) {
        mma_m16n8k16<T>(acc[mt][nt], a[mt], b[0], b[1]);
        mma_m16n8k16<T>(acc[mt][nt + 1], a[mt], b[2], b[3]);
      }
    }
  }
}

/// The same sum over visible pairs only, one product at a time: `sees(m, k)` says whether row m of A takes
/// part in inner index k. Needed where B holds Inf or NaN in a row that the mask hides from some rows of A:
/// there A is zero, and zero times Inf would spoil the sum. Slow, and rare.
template <class T, Stored kA, int kColsA, int kColsB, int kMt, int kNt, class Sees>
__device__ __forceinline__ void warp_gemm_visible(float (&acc)[kMt][kNt][4], const T* a_tile, const T* b_tile,
                                                  FragmentPosition at, int inner, Sees sees) {
#pragma unroll 1
  for (int k = 0; k < inner; ++k)
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m = at.row(mt, half * 2);
        if (!sees(m, k)) continue;
        const float a = static_cast<float>(kA == Stored::by_outer ? element<kColsA>(a_tile, m, k)
                                                                  : element<kColsA>(a_tile, k, m));
#pragma unroll
        for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
          for (int e = 0; e < 2; ++e)
            acc[mt][nt][half * 2 + e] += a * static_cast<float>(element<kColsB>(b_tile, k, at.col(nt, e)));
      }
}

/// Rounds accumulators times `scale` to T and puts them into a tile.
template <int kCols, class T, int kMt, int kNt>
__device__ __forceinline__ void put_fragments(T* tile, const float (&acc)[kMt][kNt][4], FragmentPosition at,
                                              float scale = 1) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<uint32_t*>(&element<kCols>(tile, at.row(mt, half * 2), at.col(nt, 0))) =
            pack<T>(acc[mt][nt][half * 2] * scale, acc[mt][nt][half * 2 + 1] * scale);
}

/// Whether the pair of 16-bit numbers in `bits` holds an Inf or NaN.
template <class T>
__device__ __forceinline__ bool pair_is_nonfinite(uint32_t bits) {
  constexpr uint32_t exponent = std::is_same<T, __half>::value ? 0x7c00u : 0x7f80u;
  return (bits & exponent) == exponent || ((bits >> 16) & exponent) == exponent;
}

/// Whether a tile holds an Inf or NaN. All threads of the block must call it, after the tile has arrived.
template <int kRows, int kCols, int kThreads, class T>
__device__ __forceinline__ bool tile_is_nonfinite(const T* tile) {
  bool found = false;
  for (int at = static_cast<int>(threadIdx.x); at < kRows * kCols / 2; at += kThreads)
    found |= pair_is_nonfinite<T>(reinterpret_cast<const uint32_t*>(tile)[at]);
  return __syncthreads_or(found);
}

}  // namespace flashsim::gpu

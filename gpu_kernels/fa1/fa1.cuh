// What FA1's forward and backward share: tile sizes, arguments, and fragments of O and dQ that live in memory
// between the visits of a row block.
#pragma once

#include "gpu_kernels/common/block_gemm.cuh"
#include "gpu_kernels/common/dropout.cuh"
#include "gpu_kernels/common/visible.cuh"

namespace flashsim::gpu::fa1 {

constexpr int kRows = 64;  ///< B_r
constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr float kLog2e = 1.4426950408889634f;

/// B_c, from the shared memory that K, V and the tiles beside them take.
constexpr int forward_cols(int dim) { return dim == 64 ? 256 : dim == 128 ? 128 : 64; }
constexpr int backward_cols(int dim) { return dim == 64 ? 128 : 64; }

/// O or dQ between visits: fp32 in the workspace (as in the released code), or T in the result itself (as
/// published).
template <class T>
struct Temporary {
  float* wide;  ///< null: the result itself holds the temporary
  T* result;    ///< (batch, heads_q, seqlen_q, head_dim)
};

/// The warps' grid over S: all rows of Q times a slice of the keys each, as far as 16 keys a warp allow.
template <int kCols>
struct ScoreGrid {
  static constexpr int across = kCols / 16 < kWarps ? kCols / 16 : kWarps, down = kWarps / across;
  static constexpr int mt = kRows / down / 16, nt = kCols / across / 8;
  static __device__ __forceinline__ int column() { return threadIdx.x / 32 % across; }
  static __device__ __forceinline__ FragmentPosition position() {
    return {static_cast<int>(threadIdx.x) / 32 / across * (kRows / down), column() * (kCols / across)};
  }
};

/// The warps' 4 x 2 grid over a result of kTileRows x kDim. O and dQ, which are needed in the old form and
/// the new, are done `part` 8-column blocks at a time: a warp's registers do not hold both at head_dim 256.
template <int kTileRows, int kDim>
struct ResultGrid {
  static constexpr int mt = kTileRows / 64, nt = kDim / 16, part = nt > 8 ? 4 : nt;
  static __device__ __forceinline__ FragmentPosition position() {
    return {static_cast<int>(threadIdx.x) / 64 * (kTileRows / 4),
            static_cast<int>(threadIdx.x) / 32 % 2 * (kDim / 2)};
  }
};

/// Rows of 16-bit values, 16 columns at a time: a lane of a quad moves 4 neighbouring columns (8 bytes, so
/// that the quad fills a 32-byte sector), while fragments hold columns 2t, 2t+1 of either half. Pair i of
/// columns belongs to lane i % 4 of half i / 4 in fragments, to word i % 2 of lane i / 2 in memory.
__device__ __forceinline__ uint2 to_fragments(uint2 memory, int lane) {
  const int base = lane & ~3, t = lane & 3;
  const uint32_t a0 = __shfl_sync(0xffffffffu, memory.x, base + t / 2),
                 a1 = __shfl_sync(0xffffffffu, memory.y, base + t / 2);
  const uint32_t b0 = __shfl_sync(0xffffffffu, memory.x, base + 2 + t / 2),
                 b1 = __shfl_sync(0xffffffffu, memory.y, base + 2 + t / 2);
  return make_uint2(t & 1 ? a1 : a0, t & 1 ? b1 : b0);
}
__device__ __forceinline__ uint2 from_fragments(uint2 halves, int lane) {
  const int base = lane & ~3, t = lane & 3;
  const int even = base + (2 * t & 3), odd = even + 1;
  const uint32_t a0 = __shfl_sync(0xffffffffu, halves.x, even), b0 = __shfl_sync(0xffffffffu, halves.y, even);
  const uint32_t a1 = __shfl_sync(0xffffffffu, halves.x, odd), b1 = __shfl_sync(0xffffffffu, halves.y, odd);
  return t < 2 ? make_uint2(a0, a1) : make_uint2(b0, b1);
}

/// Loads this thread's fragments of a temporary, past L1. `row0`: first row of the tile in the tensor.
template <class T, int kNt>
__device__ __forceinline__ void load_temporary(float (&f)[1][kNt][4], const Temporary<T>& x,
                                               std::int64_t row0, int rows, int head_dim,
                                               FragmentPosition at) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = at.row(0, 2 * half);
    const std::int64_t offset = (row0 + row) * head_dim;
#pragma unroll
    for (int nt = 0; nt < kNt; nt += 2) {
      if (x.wide != nullptr) {
#pragma unroll
        for (int i = nt; i < nt + 2; ++i) {
          const int col = at.col(i, 0);
          float2 two = make_float2(0, 0);
          if (row < rows && col < head_dim)
            two = __ldcg(reinterpret_cast<const float2*>(x.wide + offset + col));
          f[0][i][2 * half] = two.x, f[0][i][2 * half + 1] = two.y;
        }
      } else {
        const int col = at.col0 + nt * 8 + at.lane % 4 * 4;
        uint2 bits = make_uint2(0, 0);
        if (row < rows && col < head_dim)
          bits = __ldcg(reinterpret_cast<const uint2*>(x.result + offset + col));
        bits = to_fragments(bits, at.lane);
        const float2 a = unpack<T>(bits.x), b = unpack<T>(bits.y);
        f[0][nt][2 * half] = a.x, f[0][nt][2 * half + 1] = a.y;
        f[0][nt + 1][2 * half] = b.x, f[0][nt + 1][2 * half + 1] = b.y;
      }
    }
  }
}

/// Stores fragments: to the temporary, or where `last` to the result.
template <class T, int kNt>
__device__ __forceinline__ void store_temporary(const Temporary<T>& x, bool last, const float (&f)[1][kNt][4],
                                                std::int64_t row0, int rows, int head_dim,
                                                FragmentPosition at) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = at.row(0, 2 * half);
    const std::int64_t offset = (row0 + row) * head_dim;
#pragma unroll
    for (int nt = 0; nt < kNt; nt += 2) {
      if (x.wide != nullptr && !last) {
#pragma unroll
        for (int i = nt; i < nt + 2; ++i) {
          const int col = at.col(i, 0);
          if (row < rows && col < head_dim)
            *reinterpret_cast<float2*>(x.wide + offset + col) =
                make_float2(f[0][i][2 * half], f[0][i][2 * half + 1]);
        }
      } else {
        const int col = at.col0 + nt * 8 + at.lane % 4 * 4;
        const uint2 bits =
            from_fragments(make_uint2(pack<T>(f[0][nt][2 * half], f[0][nt][2 * half + 1]),
                                      pack<T>(f[0][nt + 1][2 * half], f[0][nt + 1][2 * half + 1])),
                           at.lane);
        if (row < rows && col < head_dim) *reinterpret_cast<uint2*>(x.result + offset + col) = bits;
      }
    }
  }
}

/// Algorithm 1, line 2, and the same for dQ: temporaries 0, and where given l = 0, m = -inf, LSE = -inf. Rows
/// whose block sees nothing are never visited: their result is final here. Any grid.
template <class T>
__global__ void initialise(Shape s, Temporary<T> x, float* l, float* m, float* lse, int block_k) {
  const std::int64_t rows = std::int64_t{s.batch} * s.heads_q * s.seqlen_q;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  // Neighbouring threads write neighbouring 16 bytes, so that every request is whole lines.
  if (x.wide != nullptr)
    for (std::int64_t i = first; i < rows * (s.head_dim / 4); i += step)
      reinterpret_cast<float4*>(x.wide)[i] = make_float4(0, 0, 0, 0);
  const int across = s.head_dim / 8;
  for (std::int64_t i = first; i < rows * across; i += step) {
    const int q0 = static_cast<int>(i / across % s.seqlen_q) / kRows * kRows;
    const bool visited = !visible_cols(s, q0, min(q0 + kRows, s.seqlen_q), block_k).empty();
    if (x.wide == nullptr || !visited) *reinterpret_cast<uint4*>(x.result + i * 8) = make_uint4(0, 0, 0, 0);
  }
  if (l == nullptr) return;
  for (std::int64_t i = first; i < rows; i += step) {
    l[i] = 0;
    m[i] = -INFINITY;
    if (lse != nullptr) lse[i] = -INFINITY;
  }
}

}  // namespace flashsim::gpu::fa1

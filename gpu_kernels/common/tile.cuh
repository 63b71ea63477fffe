// Tiles of 16-bit values in shared memory: swizzled layout, copies from and to global memory, fragments.
//
// Layout: rows of COLS values (COLS a multiple of 64), cut into 16-byte chunks; chunk c of row r lies where
// chunk c XOR (r mod 8) would. Eight rows of one column of chunks then fall into eight different bank groups,
// so that ldmatrix, stmatrix and the copies are free of bank conflicts. Tiles start at multiples of 128
// bytes.
#pragma once

#include "gpu_kernels/common/ptx.cuh"

namespace flashsim::gpu {

/// Byte offset of chunk `chunk` of row `row`.
template <int COLS>
__device__ __forceinline__ uint32_t swizzled(int row, int chunk) {
  static_assert(COLS % 64 == 0, "the swizzle permutes groups of eight chunks");
  return row * COLS * 2 + ((chunk ^ (row & 7)) << 4);
}

/// One lane's address for ldmatrix and stmatrix, advanced by compile-time rows and chunks.
template <int COLS>
class FragmentAddress {
 public:
  __device__ FragmentAddress(uint32_t tile, int row, int chunk) : base_(tile + swizzled<COLS>(row, chunk)) {}
  /// `rows` a multiple of 8, `chunks` even and so small that they share no bit with the chunk given at
  /// construction, so that XOR adds them.
  __device__ uint32_t operator()(int rows, int chunks) const {
    return (base_ ^ ((chunks & 7) << 4)) + rows * COLS * 2 + (chunks >> 3) * 128;
  }

 private:
  uint32_t base_;
};

/// Where a lane points for a 16 x 16 block with four 8 x 8 matrices, rows first: (0,0) (8,0) (0,8) (8,8).
/// ldmatrix_x4 then gives the A fragment; ldmatrix_x4_trans of a tile stored k x n gives the B fragments of
/// two 8-column blocks (r0, r1 and r2, r3); stmatrix_x4 writes two neighbouring C fragments, packed.
/// `chunk`: where the lane's part of the tile starts, a multiple of a power of two beyond which the chunks
/// added later do not reach.
template <int COLS>
__device__ __forceinline__ FragmentAddress<COLS> rows_first(uint32_t tile, int row, int lane, int chunk = 0) {
  return {tile, row + (lane & 15), chunk + (lane >> 4)};
}
/// Columns first: (0,0) (0,8) (8,0) (8,8). ldmatrix_x4 of a tile stored n x k gives the B fragments of two
/// 8-column blocks (r0, r1 and r2, r3); ldmatrix_x4_trans of a tile stored k x m gives the A fragment.
template <int COLS>
__device__ __forceinline__ FragmentAddress<COLS> columns_first(uint32_t tile, int row, int lane,
                                                               int chunk = 0) {
  return {tile, row + (lane & 7) + ((lane >> 4) << 3), chunk + ((lane >> 3) & 1)};
}

/// How THREADS threads share the 16-byte chunks of a ROWS x COLS tile: neighbours take neighbouring chunks,
/// and a thread's rows are a multiple of 8 apart, so that the swizzle is the same for all of them.
template <int ROWS, int COLS, int THREADS>
struct ChunkShare {
  static constexpr int chunks = COLS / 8;
  static constexpr int across = chunks < THREADS / 8 ? chunks : THREADS / 8;
  static constexpr int row_step = THREADS / across;
  static_assert(ROWS % row_step == 0 && chunks % across == 0 && row_step % 8 == 0, "");
};

/// Starts the copy of rows [0, rows) of a row-major matrix with `head_dim` <= COLS columns into a tile;
/// what pads the tile is zero-filled and not read. All THREADS threads take part. WHOLE: whole tiles take a
/// path of their own without checks, for loops that copy many of them; it costs a register or two and code.
template <int ROWS, int COLS, int THREADS, bool WHOLE = false, class T>
__device__ __forceinline__ void copy_tile_async(uint32_t tile, const T* global, int rows, int head_dim,
                                                int thread) {
  using Share = ChunkShare<ROWS, COLS, THREADS>;
  const int row = thread / Share::across, chunk = thread % Share::across;
  const T* source = global + (row * head_dim + chunk * 8);
  const uint32_t target = tile + swizzled<COLS>(row, chunk);
  // `across` is a multiple of 8 chunks, so a step across leaves the swizzle alone, too.
  static_assert(Share::chunks == Share::across || Share::across % 8 == 0, "");
  if (WHOLE && rows >= ROWS && head_dim == COLS) {  // all offsets are constants of the instructions
#pragma unroll
    for (int r = 0; r < ROWS; r += Share::row_step)
#pragma unroll
      for (int c = 0; c < Share::chunks; c += Share::across)
        cp_async_16_whole(target + r * COLS * 2 + c * 16, source + r * COLS + c * 8);
    return;
  }
#pragma unroll
  for (int r = 0; r < ROWS; r += Share::row_step) {
#pragma unroll
    for (int c = 0; c < Share::chunks; c += Share::across) {
      cp_async_16(target + r * COLS * 2 + c * 16, source + c * 8,
                  row + r < rows && (chunk + c) * 8 < head_dim);
    }
    source += Share::row_step * head_dim;
  }
}

/// Writes rows [0, rows) x columns [0, head_dim) of a tile to a row-major matrix. The threads that take part
/// are `thread` = 0 ... THREADS - 1; ROWS x COLS is the part of the tile they share (a warp: its own rows).
template <int ROWS, int COLS, int THREADS, class T>
__device__ __forceinline__ void store_tile(T* global, const unsigned char* tile, int rows, int head_dim,
                                           int thread) {
  constexpr int chunks = COLS / 8;
#pragma unroll
  for (int i = 0; i < ROWS * chunks; i += THREADS) {
    const int row = (i + thread) / chunks, chunk = (i + thread) % chunks;
    if (row < rows && chunk * 8 < head_dim)
      *reinterpret_cast<uint4*>(global + int64_t{row} * head_dim + chunk * 8) =
          *reinterpret_cast<const uint4*>(tile + swizzled<COLS>(row, chunk));
  }
}

/// Two neighbouring C fragments, rounded to T, to where rows_first points.
template <class T>
__device__ __forceinline__ void put_blocks(uint32_t address, const float (&a)[4], const float (&b)[4]) {
  stmatrix_x4(address, pack<T>(a[0], a[1]), pack<T>(a[2], a[3]), pack<T>(b[0], b[1]), pack<T>(b[2], b[3]));
}
/// Rows 16 i ... of fragments, rounded to T, into a tile.
template <class T, int COLS, int M, int C>
__device__ __forceinline__ void put_rows(const FragmentAddress<COLS>& to, const float (&x)[M][C][4], int i) {
#pragma unroll
  for (int c = 0; c < C; c += 2) put_blocks<T>(to(16 * i, c), x[i][c], x[i][c + 1]);
}

template <int M, int N>
__device__ __forceinline__ void clear(float (&acc)[M][N][4]) {
#pragma unroll
  for (int i = 0; i < M * N * 4; ++i) (&acc[0][0][0])[i] = 0;
}

/// acc (16 M x 8 N) += A B over 16 STEPS of k, fragments fetched by `a(fragment, i, step)` for row block i
/// and `b(fragment, n, step)` for column blocks n and n + 1.
template <class T, int STEPS, int M, int N, class FetchA, class FetchB>
__device__ __forceinline__ void multiply(float (&acc)[M][N][4], const FetchA& fetch_a,
                                         const FetchB& fetch_b) {
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    uint32_t a[M][4];
#pragma unroll
    for (int i = 0; i < M; ++i) fetch_a(a[i], i, step);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t b[4];
      fetch_b(b, n, step);
#pragma unroll
      for (int i = 0; i < M; ++i) {
        mma_m16n8k16<T>(acc[i][n], a[i], b[0], b[1]);
        mma_m16n8k16<T>(acc[i][n + 1], a[i], b[2], b[3]);
      }
    }
  }
}

/// Largest and sum over the four lanes that share a row of a C fragment.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

}  // namespace flashsim::gpu

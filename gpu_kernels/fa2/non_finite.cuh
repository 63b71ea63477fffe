// Inf and NaN in tiles that the mask cuts.
//
// A pair that the mask hides has P = 0 and dS = 0, but 0 x Inf is NaN: a product over a whole tile would
// carry a hidden Inf into rows that must not know of it. So Inf and NaN are taken out of the tile before such
// a product, and what the pairs that do see them make of them is put back into the result at the end. Both
// are rare; finding out whether there is anything to take out costs one look at the tile.
//
// The forward pass does so; the backward pass has a way of its own, see repair.cuh.
//
// A row whose visible scores are all -inf (LSE = -inf) counts as one that sees nothing, as in the reference.
#pragma once

#include <math_constants.h>

#include <type_traits>

#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/common/tile.cuh"

namespace flashsim::gpu::fa2 {

/// Bits 15 and 31 are set where the low and the high value of a pair are Inf or NaN: their exponents are all
/// ones, so that one more carries into the sign's place.
template <class T>
__device__ __forceinline__ uint32_t non_finite_bits(uint32_t pair) {
  constexpr uint32_t one = std::is_same_v<T, __half> ? 0x04000400u : 0x00800080u;
  return ((pair & 0x7fff7fffu) + one) & 0x80008000u;
}

template <class T>
__device__ __forceinline__ bool is_finite(T x) {
  return static_cast<float>(x) * 0.0f == 0.0f;
}

/// Calls f(chunk) for the 16-byte chunks of a tile that copy_tile_async lets this thread copy: it may read
/// those after cp_async_wait, without waiting for other threads.
template <int ROWS, int COLS, int THREADS, class F>
__device__ __forceinline__ void for_own_chunks(unsigned char* tile, const F& f) {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));  // or its addresses occupy registers all the time
  using Share = ChunkShare<ROWS, COLS, THREADS>;
  constexpr int across = Share::chunks / Share::across;
  unsigned char* first = tile + swizzled<COLS>(thread / Share::across, thread % Share::across);
#pragma unroll 2
  for (int i = 0; i < ROWS / Share::row_step * across; ++i)
    f(*reinterpret_cast<uint4*>(first + (i / across) * Share::row_step * COLS * 2 +
                                (i % across) * Share::across * 16));
}

/// Whether there is Inf or NaN in this thread's chunks of a tile.
template <int ROWS, int COLS, int THREADS, class T>
__device__ __forceinline__ bool has_non_finite(unsigned char* tile) {
  uint32_t found = 0;
  for_own_chunks<ROWS, COLS, THREADS>(tile, [&](const uint4& x) {
    found |=
        non_finite_bits<T>(x.x) | non_finite_bits<T>(x.y) | non_finite_bits<T>(x.z) | non_finite_bits<T>(x.w);
  });
  return found != 0;
}

/// Replaces Inf and NaN by 0 in this thread's chunks of a tile; true where there were any.
template <int ROWS, int COLS, int THREADS, class T>
__device__ __forceinline__ bool zero_non_finite(unsigned char* tile) {
  bool found = false;
  for_own_chunks<ROWS, COLS, THREADS>(tile, [&](uint4& x) {
    const uint32_t bits[4] = {non_finite_bits<T>(x.x), non_finite_bits<T>(x.y), non_finite_bits<T>(x.z),
                              non_finite_bits<T>(x.w)};
    if ((bits[0] | bits[1] | bits[2] | bits[3]) == 0) return;
    found = true;
    // A set bit becomes the 16 bits of its value.
    const auto clear = [](uint32_t pair, uint32_t bit) { return pair & ~((bit >> 15) * 0xffffu); };
    x = make_uint4(clear(x.x, bits[0]), clear(x.y, bits[1]), clear(x.z, bits[2]), clear(x.w, bits[3]));
  });
  return found;
}

/// O of one head's rows [row, row + rows): adds what V's Inf and NaN among keys [begin, end) give to rows
/// that see them. P is positive, so that it changes nothing about them. `o`, `lse`: at `row`; `v`: at key 0.
template <int THREADS, class T>
__device__ void restore_o(const Shape& s, int row, int rows, int begin, int end, const T* v, const float* lse,
                          T* o) {
  for (int i = threadIdx.x; i < rows * s.head_dim; i += THREADS) {
    const int r = i / s.head_dim, col = i % s.head_dim;
    if (lse[r] == -CUDART_INF_F) continue;
    float sum = 0;
    for (int key = max(begin, s.first_key(row + r)); key < min(end, s.end_key(row + r)); ++key) {
      const T x = v[int64_t{key} * s.head_dim + col];
      if (!is_finite(x)) sum += static_cast<float>(x);
    }
    if (sum != 0.0f) o[i] = T(static_cast<float>(o[i]) + sum);
  }
}

}  // namespace flashsim::gpu::fa2

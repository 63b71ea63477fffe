// The thread block of both forward kernels: its arguments, its rows, which tiles they see, and how tiles
// arrive.
#pragma once

#include "cpu_reference/turns.h"
#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/common/tile.cuh"
#include "gpu_kernels/fa2/non_finite.cuh"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::fa2 {

template <class T>
struct ForwardParameters {
  Shape shape;
  const T *q, *k, *v;
  T* o;
  float* lse;
  int row_blocks, heads;  ///< row blocks of a head; query heads of all batch entries
  int heads_together;     ///< as Tiling's, at most `heads`
  bool last_to_first;     ///< BlockOrder: the last row block of a head starts first
};

/// Where the thread block's rows and their keys lie. Thread blocks start in the order of their number.
template <class Compiled>
struct RowBlock {
  int batch, head, row, rows;  ///< rows: those that exist
  int first_tile, end_tile;    ///< visible tiles of K and V

  template <class T>
  __device__ explicit RowBlock(const ForwardParameters<T>& p) {
    const Shape& s = p.shape;
    const Turn<unsigned> turn = turn_of<unsigned>(blockIdx.x, p.heads, p.heads_together, p.row_blocks);
    const int bh = turn.head, x = turn.block, i = p.last_to_first ? p.row_blocks - 1 - x : x;
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

/// Starts the copy of tile j of K or V (`from`: its head). All threads take part.
template <class Compiled, bool WHOLE = false, class T>
__device__ __forceinline__ void load_keys(uint32_t tile, const T* from, int j, const Shape& s, int thread) {
  const int key = j * Compiled::block_k;
  from += int64_t{key} * s.head_dim;
  asm volatile("" : "+l"(from));  // or the compiler keeps a pointer per thread and tensor across the loop
  copy_tile_async<Compiled::block_k, Compiled::head_dim, Compiled::threads, WHOLE>(
      tile, from, s.seqlen_k - key, s.head_dim, thread);
}

/// Gives O what zero_non_finite took out of V's tiles, where any thread found something. `v`: its head;
/// `first_row`: the block's in O and LSE. All threads call it, when O and LSE have been written.
template <class Compiled, class T>
__device__ __forceinline__ void restore_rows(const ForwardParameters<T>& p, const RowBlock<Compiled>& block,
                                             const T* v, int64_t first_row, bool found) {
  const Shape& s = p.shape;
  if (__syncthreads_or(found))
    for (int j = block.first_tile; j < block.end_tile; ++j)
      if (block.is_cut(s, j))
        restore_o<Compiled::threads>(s, block.row, block.rows, j * Compiled::block_k,
                                     (j + 1) * Compiled::block_k, v, p.lse + first_row,
                                     p.o + first_row * s.head_dim);
}

/// Launches the kernel without dropout or the one with it, both of Compiled's tiling, on `stream`.
template <class Compiled, class T>
void launch_rows(void (*plain)(ForwardParameters<T>), void (*dropout)(ForwardParameters<T>), const Problem& p,
                 const Tiling& t, const Tensors& x, void* stream) {
  ForwardParameters<T> a;
  a.shape = shape_of(p);
  a.q = static_cast<const T*>(x.q), a.k = static_cast<const T*>(x.k), a.v = static_cast<const T*>(x.v);
  a.o = static_cast<T*>(x.o), a.lse = x.lse;
  a.row_blocks = (p.seqlen_q + Compiled::block_q - 1) / Compiled::block_q;
  a.heads = p.batch * p.heads_q;
  a.heads_together = std::min(t.heads_together, a.heads);
  a.last_to_first = t.order == BlockOrder::last_to_first;
  const dim3 grid(static_cast<unsigned>(std::int64_t{a.heads} * a.row_blocks));
  launch("fa2 forward", a.shape.dropout_threshold > 0 ? dropout : plain, grid, Compiled::threads,
         Compiled::shared_bytes, stream, a);
}

}  // namespace flashsim::gpu::fa2

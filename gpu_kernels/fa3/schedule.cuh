// Which tile of Q a thread block works on next, and which blocks of K and V that tile needs.
#pragma once

#include "cpu_reference/turns.h"
#include "gpu_kernels/common/visible.cuh"

namespace flashsim::gpu::fa3 {

/// What the kernel is told at launch; the tensors' shapes are also in the tensor maps.
struct ForwardParams : Shape {
  const void *q, *k, *v;
  void* o;
  float* lse;
  unsigned long long* counter;  ///< of the dynamic schedule, see claim_tile
  int heads;                    ///< batch * heads_q
  int q_tiles, tiles;           ///< of Q, per head and in all
  int section;                  ///< masked: heads worked on at one time, so that their K and V stay in L2
  /// e4m3: largest magnitude / 448 of each tile of Q (by head, tile), block of K (by head, block), head of V.
  const float *q_scale, *k_scale, *v_scale;
  int k_blocks, first_tile, late;  ///< per head; masked: its first tile; Tiling::late_blocks
};
struct Tile {
  int q = 0;      ///< index of the tile within its head
  int head = -1;  ///< batch * heads_q + head; -1 after the last tile
  int kv_head = 0;
  /// Blocks of keys: begin <= n < end, of which clean_begin <= n < clean_end need no mask; all from begin on.
  int begin = 0, end = 0, clean_begin = 0, clean_end = 0;
};

/// Dense: the tiles of one head follow each other. Masked: the heads of a section take turns, from the last
/// tile on (the longest of a causal head), so that no long tile is left for the end, or from the first.
template <class C>
__device__ __forceinline__ Tile tile_of(const ForwardParams& p, int t) {
  Turn<int> turn{t / p.q_tiles, t % p.q_tiles};
  if (C::masked) turn = turn_of(t, p.heads, p.section, p.q_tiles, C::two_level ? p.late : 0);
  Tile tile{C::masked ? p.q_tiles - 1 - turn.block : turn.block, turn.head};
  // Not in e4m3, whose speed hangs on choices of ptxas that a sum more here would change.
  if (C::masked && !C::fp8) tile.q = abs(turn.block - p.first_tile);
  tile.kv_head = tile.head / p.group;
  const int first_row = tile.q * C::block_q, last_row = min(first_row + C::block_q, p.seqlen_q) - 1;
  BlockRange seen = visible_cols(p, first_row, last_row + 1, C::block_k);
  // A tile that sees nothing still runs one block, fully masked: every role then does the same steps.
  if (seen.empty()) seen = {0, 1};
  tile.begin = seen.first, tile.end = seen.end;
  tile.clean_begin = max(seen.first, ceil_div(p.first_key(last_row), C::block_k));
  // Masked: below the last key that all rows see, so that every row has seen a key before.
  tile.clean_end = max(seen.first, (p.end_key(first_row) - C::masked) / C::block_k);
  return tile;
}

/// A counter of nothing claimed: a mark in the upper half, and the number claimed in the lower.
constexpr unsigned long long kNoneClaimed = 0x9E3779B9ull << 32;

/// Claims a number, from 0 on. Memory without the mark (before the first launch) counts as nothing claimed.
/// A launch claims `tiles` numbers in all; whoever gets the last leaves the counter as the next one needs it.
__device__ __forceinline__ int claim_tile(unsigned long long* counter, int tiles) {
  unsigned long long claimed = atomicAdd(counter, 1ull);
  if (claimed >> 32 != kNoneClaimed >> 32) {
    unsigned long long found = claimed + 1, expected;
    do found = atomicCAS(counter, expected = found, kNoneClaimed);
    while (found != expected && found >> 32 != kNoneClaimed >> 32);
    claimed = atomicAdd(counter, 1ull);
  }
  if (int(claimed) == tiles - 1) atomicExch(counter, kNoneClaimed);
  return int(claimed);
}

}  // namespace flashsim::gpu::fa3

// Which tile of Q a thread block works on next, and which blocks of K and V that tile needs.
#pragma once

#include <cstdint>

namespace flashsim::gpu::fa3 {

/// What the kernel is told at launch; the tensors' shapes are also in the tensor maps.
struct ForwardParams {
  const void *q, *k, *v;  ///< also in the tensor maps
  void* o;
  float* lse;
  int* counter;  ///< next tile of the dynamic schedule; zero at launch
  int seqlen_q, seqlen_k, head_dim;
  int group;    ///< query heads per K/V head
  int heads;    ///< batch * heads_q
  int q_tiles;  ///< tiles of Q per head
  int tiles;    ///< q_tiles * heads
  int section;  ///< masked: heads worked on at one time, so that their K and V stay in L2
  /// Query q sees keys q + first_key <= k < q + end_key (within the sequence).
  int first_key, end_key;
  /// e4m3: largest magnitude / 448 of each tile of Q (by head, tile), block of K (by head, block), head of V.
  const float *q_scale, *k_scale, *v_scale;
  int k_blocks;      ///< per head
  float scale_log2;  ///< softmax scale times log2(e)
};

struct Tile {
  int q;     ///< index of the tile within its head
  int head;  ///< batch * heads_q + head
};

/// Dense: the tiles of one head follow each other. Masked: the longest tiles (latest queries) of a section of
/// heads first, so that no long tile is left for the end.
template <bool Masked>
__device__ __forceinline__ Tile tile_of(const ForwardParams& p, int t) {
  if (!Masked) return {t % p.q_tiles, t / p.q_tiles};
  const int tiles_per_section = p.section * p.q_tiles;
  const int section = t / tiles_per_section, rest = t - section * tiles_per_section;
  const int heads = min(p.section, p.heads - section * p.section);
  return {p.q_tiles - 1 - rest / heads, section * p.section + rest % heads};
}

/// Blocks of keys a tile of Q loads: begin <= n < end. Those with clean_begin <= n < clean_end are visible to
/// every row and need no mask.
struct KeyBlocks {
  int begin, end, clean_begin, clean_end;
};

template <bool Masked, int BlockQ, int BlockK>
__device__ __forceinline__ KeyBlocks key_blocks(const ForwardParams& p, int tile) {
  if (!Masked) return {0, (p.seqlen_k + BlockK - 1) / BlockK, 0, p.seqlen_k / BlockK};
  const int first_row = tile * BlockQ, last_row = min(first_row + BlockQ, p.seqlen_q) - 1;
  KeyBlocks b;
  // A tile that sees nothing still runs one block, fully masked: every role then does the same steps.
  b.end = max(1, (min(p.seqlen_k, last_row + p.end_key) + BlockK - 1) / BlockK);
  b.begin = min(max(0, first_row + p.first_key) / BlockK, b.end - 1);
  b.clean_begin = (max(0, last_row + p.first_key) + BlockK - 1) / BlockK;
  // One key less than all rows see: then every row has seen a key before the first clean block.
  b.clean_end = max(0, min(p.seqlen_k, first_row + p.end_key) - 1) / BlockK;
  return b;
}

}  // namespace flashsim::gpu::fa3

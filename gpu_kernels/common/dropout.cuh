// Dropout on C fragments, bit for bit the mask of cpu_reference/philox.h.
//
// One Philox call decides about columns 4c ... 4c + 3 of one row. In an 8-column block of C fragments those
// lie in two neighbouring lanes of a quad, and each lane holds two rows (g and g + 8). So the even lane of
// the pair draws for row g, the odd one for row g + 8, and they swap what the other needs: one call a lane
// and block, none wasted; the bits of eight blocks travel in one shuffle.
#pragma once

#include "cpu_reference/philox.h"
#include "gpu_kernels/common/ptx.cuh"

namespace flashsim::gpu {

/// Which elements of BLOCKS <= 8 neighbouring 8-column C fragments are kept: bit 4 j + i for c[i] of block j.
/// `row` is the lane's first row (g), `col` the first block's first column (a multiple of 8); `head` counts
/// over the batch. All 32 lanes call it.
template <int BLOCKS>
__device__ __forceinline__ uint32_t dropout_kept(std::uint64_t seed, uint32_t threshold, uint32_t head,
                                                 int row, int col, int lane) {
  static_assert(BLOCKS >= 1 && BLOCKS <= 8, "four bits a block");
  const int odd = lane & 1;
  uint32_t drawn = 0;  // the four columns of the row this lane drew for
#pragma unroll
  for (int j = 0; j < BLOCKS; ++j) {
    const PhiloxWords words = dropout_words(seed, head, row + 8 * odd, col + 8 * j + 4 * ((lane >> 1) & 1));
#pragma unroll
    for (int i = 0; i < 4; ++i) drawn |= static_cast<uint32_t>(words.word[i] >= threshold) << (4 * j + i);
  }
  const uint32_t other = __shfl_xor_sync(0xffffffffu, drawn, 1);
  // Even lane: columns 0, 1 of its own draw (row g) and of the other's (row g + 8). Odd lane: columns 2, 3 of
  // the other's draw (row g) and of its own (row g + 8).
  constexpr uint32_t low = 0x33333333u, high = 0xccccccccu;
  return odd ? ((other & high) >> 2) | (drawn & high) : (drawn & low) | ((other & low) << 2);
}

/// Whether element c[i] of block j survives.
__device__ __forceinline__ bool is_kept(uint32_t kept, int j, int i) { return kept >> (4 * j + i) & 1; }

}  // namespace flashsim::gpu

// Into how many parts decoding cuts the keys. Plain C++17, no CUDA: the simulator and the tests use it, too.
#pragma once

#include <cstdint>

namespace flashsim::gpu {

/// Thread blocks of the decoding kernel that one SM holds at a time (H100, H200: 108 KiB of shared memory
/// each).
constexpr int decoding_blocks_per_sm(int head_dim) { return head_dim <= 128 ? 2 : 1; }

/// Number of splits that finishes first in a simple model: `units` = batch * heads_kv * row blocks thread
/// blocks per split share `slots` = SMs * blocks per SM, in waves; a thread block's time is its tiles of K
/// and V plus a fixed part (start, pipeline fill, writing its part and reading it again in the merge) worth
/// `overhead_tiles` tiles:
///
///   time(s) = ceil(units s / slots) (ceil(tiles / s) + overhead_tiles)
///
/// The smallest s of the least time, 1 <= s <= min(tiles, 1024). Enough units to fill the GPU give 1. The
/// wave model follows FlashAttention's own heuristic (Flash-Decoding, 2023) with the cost of a split made
/// explicit.
constexpr int choose_num_splits(std::int64_t units, int tiles, int slots, int overhead_tiles = 4) {
  int best = 1;
  std::int64_t best_time = 0;
  for (int s = 1; s <= 1024 && (s == 1 || s <= tiles); ++s) {
    const std::int64_t time =
        (units * s + slots - 1) / slots * ((tiles + s - 1) / s + (s > 1 ? overhead_tiles : 0));
    if (s == 1 || time < best_time) {
      best = s;
      best_time = time;
    }
  }
  return best;
}

/// Splits cover whole tiles, equally many each: how many, and how many splits that leaves in use (the last
/// ones of `num_splits` may get none).
constexpr int tiles_per_split(int tiles, int num_splits) { return (tiles + num_splits - 1) / num_splits; }
constexpr int splits_in_use(int tiles, int num_splits) {
  const int each = tiles_per_split(tiles, num_splits);
  return (tiles + each - 1) / each;
}

}  // namespace flashsim::gpu

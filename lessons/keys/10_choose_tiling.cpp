#include <algorithm>
#include <limits>

#include "lessons/exercises/given/tiling.h"
#include "simulator/machine/blocks.h"

namespace {

/// Keys that all thread blocks together load.
std::int64_t keys_loaded(const Problem& p, const Tiling& t) {
  std::int64_t keys = 0;
  for (Block i : row_blocks(p, t))
    for (Block j : visible_cols(p, t, i)) keys += j.rows;
  return keys;
}

}  // namespace

Tiling choose(const Problem& p, std::int64_t sram_bytes) {
  Tiling best, t;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  const std::int64_t b = bytes_of(p.dtype), d = p.head_dim;
  for (t.block_q = 16; t.block_q <= 256 && t.block_q < p.seqlen_q + 16; t.block_q += 16)
    for (t.block_k = 16; t.block_k <= 256 && t.block_k < p.seqlen_k + 16; t.block_k += 16) {
      const std::int64_t br = t.block_q, bc = t.block_k;
      if (b * (2 * br * d + 2 * bc * d + br * bc) + 16 * br > sram_bytes) continue;
      const std::int64_t keys = keys_loaded(p, t);
      if (keys < fewest) {
        fewest = keys;
        best = t;
      }
    }
  return best;
}

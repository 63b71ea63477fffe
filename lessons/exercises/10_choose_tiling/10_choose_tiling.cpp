// Exercise 10: choose a tiling. Read 10_choose_tiling.md first.
#include "lessons/exercises/given/tiling.h"

Tiling choose(const Problem& p, std::int64_t sram_bytes) {
  Tiling t;
  // TODO: the blocks that request the fewest bytes and fit. These fit, but are far too small.
  static_cast<void>(p);
  static_cast<void>(sram_bytes);
  t.block_q = t.block_k = 16;
  return t;
}

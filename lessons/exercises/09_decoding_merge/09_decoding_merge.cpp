// Exercise 9: merge the parts of split keys. Read 09_decoding_merge.md first.
#include "lessons/exercises/given/steps.h"

void schedule(Device& gpu, const Problem& p, const Tiling& t) {
  given::decoding_split(gpu, p, t);  // O_part and LSE_part of every split
  gpu.kernel("merge", packed_row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block s : key_splits(p, t)) {
      Tile Ls = sm.load(LSE_part, in_part(i, s.index));  // (B_r, 1)
      Tile Os = sm.load(O_part, in_part(i, s.index));    // (B_r, d), divided by its own sum already
      // TODO: take this part into mi, li and Oi, as if it were one score with the value Ls and the row Os of
      // V.
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

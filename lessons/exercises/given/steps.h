// What earlier exercises built, ready to use in later ones, so that none depends on your own solution of
// another. These functions are compiled: their text is the answer to those exercises.
#pragma once

#include "lessons/exercises/given/schedule.h"

namespace given {

/// The inside of exercise 3's loop: takes the scores Sij (B_r, B_c) of one tile, masked already, into the
/// running maximum mi (B_r, 1), the running sum li (B_r, 1) and the output so far Oi (B_r, d). Sij becomes P.
void online_softmax_step(Machine& sm, Tile& Oi, Tile& li, Tile& mi, Tile& Sij, const Tile& Vj);

/// The first kernel of Flash-Decoding: leaves, for every range of key_splits(p, t), the normalised output of
/// that range alone in O_part and the log-sum-exp of its scores in LSE_part.
void decoding_split(Device& gpu, const Problem& p, const Tiling& t);

}  // namespace given

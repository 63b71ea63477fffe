// How many bytes a schedule requests for every tile of S: what another algorithm would have moved for the
// tiles that are done.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/executors/tile_steps.h"
#include "simulator/machine/program.h"

namespace flashsim {

struct TileBytes {
  std::int64_t all = 0;     ///< requested bytes
  std::int64_t scores = 0;  ///< of S, P, dP, dS and masks: whole n x n matrices
};

/// Executes `program`, bound to p and t, for one K/V head, counting only. Entry (g * T_r + i) * T_c + j is
/// that of tile (i, j) of query head g of the group. A step over several tiles is divided by their columns;
/// what a thread block moves outside visits counts for the last tile it visited.
std::vector<TileBytes> tile_bytes(const Program& program, const Problem& p, const Tiling& t);

}  // namespace flashsim

// An operator of an eager framework that works on n x n matrices row by row.
#pragma once

#include "simulator/machine/device.h"

namespace flashsim {

/// A kernel that maps rows of n x n matrices onto rows: one thread block a row block.
template <class Row>
void each_row(Device& gpu, const Problem& p, const Tiling& t, std::string_view name, Row row) {
  gpu.kernel(name, row_blocks(p, t), [&](Machine& sm, Block i) {
    for (Block r : rows_in(i)) row(sm, r);
  });
}

}  // namespace flashsim

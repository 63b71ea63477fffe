// What an operation computes: the FLOPs that traffic counts, and that the timeline turns into time.
#pragma once

#include <cstdint>

#include "simulator/machine/operation.h"

namespace flashsim {

struct Work {
  std::int64_t matmul_flops = 0;  ///< 2 m n k of a product
  std::int64_t exps = 0;
  std::int64_t other_flops = 0;  ///< element by element and along rows; an exp is one of them too
};

/// The work of one operation; none for what only moves, names or rounds (loads, stores, mask, convert).
Work work_of(const Operation& o);

}  // namespace flashsim

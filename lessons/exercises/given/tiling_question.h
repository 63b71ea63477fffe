// What is asked in exercise 10, and the answer.
#pragma once

#include <cstdint>

#include "cpu_reference/problem.h"

namespace given {

struct TilingQuestion {
  flashsim::Problem problem;
  std::int64_t sram_bytes;
};
struct TilingAnswer {
  int block_q, block_k;
};

}  // namespace given

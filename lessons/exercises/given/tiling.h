// What exercise 10 is written against.
#pragma once

#include <cstdint>

#include "cpu_reference/problem.h"

using namespace flashsim;

/// What the exercise defines: block_q and block_k (each a multiple of 16, from 16 to 256) for
/// FlashAttention-2's forward pass on `p`, with tiles of at most `sram_bytes` bytes on chip at once, that
/// request the fewest bytes.
Tiling choose(const Problem& p, std::int64_t sram_bytes);

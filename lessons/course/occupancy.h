// How well a grid of thread blocks fills a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "simulator/machine/gpu.h"

namespace flashsim::course {

struct Fill {
  int resident = 0;     ///< thread blocks that one SM holds at once
  double waves = 0;     ///< grid / (SMs x resident)
  double busy_sms = 0;  ///< share of SMs that have a thread block, averaged over the waves
};

/// `sram_bytes` and `threads` of one thread block; registers are taken to allow as many as SRAM does.
inline Fill fill_of(const Gpu& gpu, std::int64_t thread_blocks, std::int64_t sram_bytes, int threads) {
  Fill f;
  f.resident = std::max(1, gpu.blocks_that_fit(sram_bytes, threads, 32));
  f.waves = double(thread_blocks) / (double(gpu.sm_count) * f.resident);
  const double whole = std::floor(f.waves), rest = (f.waves - whole) * f.resident;
  f.busy_sms = (whole + std::min(1.0, rest)) / std::ceil(f.waves);
  return f;
}

}  // namespace flashsim::course

// A kernel that re-reads a buffer again and again, in the L2 model: the measurement (`flashsim sweep-l2`)
// that shows a card's effective L2 capacity and how it replaces lines.
#pragma once

#include <cstdint>

#include "simulator/machine/gpu.h"

namespace flashsim {

struct SweepPoint {
  std::int64_t buffer_bytes = 0;
  double dram_read_bytes = 0;  ///< of all repeats from a cold cache
  double fabric_bytes = 0;     ///< crossed between the partitions
  /// DRAM bytes of repeats 2 ... n over what they read: 0 where the buffer stays in L2, 1 where nothing does.
  double warm_miss_share = 0;
};

/// What re-reading `buffer_bytes` (at least 4 KiB) `repeats` times (at least 2) from a cold L2 does: 8 thread
/// blocks per SM of 256 threads, 16 bytes a thread; block b reads 4 KiB pieces b, b + blocks, ..., and each
/// repeat begins 40,961 x 16 bytes further on. Throws std::invalid_argument outside those ranges.
SweepPoint simulate_reread(const Gpu& gpu, std::int64_t buffer_bytes, int repeats, std::uint64_t seed = 1,
                           double usable = 0.97);

}  // namespace flashsim

// One card's L2, as measured: how much it holds, whether it is divided, and on which side the thread blocks
// of a launch sit. `flashsim sweep-l2` measures it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/machine/gpu.h"

namespace flashsim {

/// What re-reading a buffer did, see simulate_reread; bytes over all repeats.
struct RereadPoint {
  std::int64_t buffer_bytes = 0;
  double dram_read = 0, l2_read = 0, fabric = 0;
  double miss_share = 0;  ///< DRAM bytes of repeats 2 ... n over what they read
};

struct Card {
  std::string device, driver, cuda, date, commit, command;
  std::int64_t l2_bytes = 0;
  int partitions = 1;    ///< 1 or 2
  double usable = 0.95;  ///< share of l2_bytes that holds a kernel's data, in (0, 1]
  int repeats = 0;       ///< of each buffer
  std::vector<RereadPoint> points;
  /// The side of L2, 0 or 1, on which each thread block of a launch sits, for launches of several numbers of
  /// thread blocks (the length), ascending; the last has one on every SM. Empty where it is not known.
  std::vector<std::vector<int>> sides;

  /// The sides of a launch of `blocks` thread blocks; null where none of at least that many was measured.
  const std::vector<int>* sides_of(std::size_t blocks) const;
};

/// The side of L2 of each SM, from how long it waits for each of many lines (rows: SMs; columns: lines; any
/// unit). The lines of one side are far from the SMs of the other, all alike; so one pattern explains the
/// differences. All zeros where it does not explain half of them: L2 is not divided. The first SM's side is
/// 0. Throws std::invalid_argument where rows are empty or differ in length.
std::vector<int> sides_of_sms(const std::vector<std::vector<double>>& waits);

/// The share of gpu.l2_bytes, in steps of 0.01 from 0.8 to 1, with which the model's misses are nearest to
/// those measured in buffers of 0.4 to 0.7 of L2, where its capacity decides; 0.95 without such points.
double usable_share(const Gpu& gpu, const std::vector<RereadPoint>& points, int repeats);

}  // namespace flashsim

// The device that interleaves a schedule's thread blocks in time and sends what they touch through L2.
#pragma once

#include <memory>

#include "simulator/executors/l2/address_map.h"
#include "simulator/executors/l2/cache.h"
#include "simulator/executors/l2/l2.h"
#include "simulator/executors/l2/recording.h"

namespace flashsim::l2 {

class ReplayDevice final : public Device {
 public:
  ReplayDevice(const Problem& p, const Tiling& t, const L2Options& options);
  L2Result result();

 private:
  struct Counters {
    double requested_read = 0, requested_written = 0;
    double read = 0, written = 0;                                           // the elements' bytes
    std::int64_t reads = 0, cold = 0, missed = 0, writes = 0, fetched = 0;  // sampled lines
    std::int64_t cleaned_before = 0, dirty_before = 0;  // lines, at the end of the kernel before
    double written_per_line = 0;                        // what a dirty line stands for, on average
    double owed = 0;                                    // requested, and not yet written to DRAM
  };
  class Grid;
  struct Slot;

  void launch(std::string_view name, Blocks rows, Blocks cols, const Body2D& body) override;
  void interleave(Grid& grid, int per_sm, std::uint16_t spills);
  bool replay(const Slot& slot, std::uint32_t begin, std::uint32_t end);
  int blocks_per_sm(const Recording& first) const;
  void account(L2Kernel& kernel);
  Counters& counters(std::uint16_t area) {
    if (counters_.size() <= area) counters_.resize(map_.areas().size());
    return counters_[area];
  }
  double written_per_line(std::uint16_t area) const;
  L2Traffic& traffic(std::uint16_t area, std::array<L2Traffic, tensor_count>& tensors,
                     L2Traffic& other) const;

  const Problem& p_;
  const Tiling& t_;
  L2Options options_;
  const Gpu& gpu_;
  std::int64_t sample_bytes_;
  Draws draws_;
  int partitions_;  // of L2
  Cache cache_;
  AddressMap map_;
  Recorder recorder_;
  std::vector<Counters> counters_;
  std::vector<double> speed_;  // of every SM: the time a step takes
  std::vector<int> side_;
  L2Result result_;
};

}  // namespace flashsim::l2

#include "simulator/executors/l2/l2.h"

#include <algorithm>
#include <numeric>

#include "simulator/executors/l2/device.h"

namespace flashsim {

L2Traffic& L2Traffic::operator+=(const L2Traffic& o) {
  requested_read += o.requested_read;
  requested_written += o.requested_written;
  dram_read += o.dram_read;
  dram_written += o.dram_written;
  left_dirty += o.left_dirty;
  return *this;
}

namespace {
L2Traffic sum(const std::array<L2Traffic, tensor_count>& tensors, L2Traffic start) {
  for (const L2Traffic& t : tensors) start += t;
  return start;
}
}  // namespace

L2Traffic L2Kernel::total() const { return sum(tensors, other); }
L2Traffic L2Result::total() const { return sum(tensors, other); }

L2Result simulate_l2(Schedule schedule, const Problem& p, const Tiling& t, const L2Options& options) {
  l2::ReplayDevice device(p, t, options);
  schedule(device, p, t);
  return device.result();
}

L2Range simulate_l2_range(Schedule schedule, const Problem& p, const Tiling& t, const L2Options& options,
                          int seeds, int most_seeds,
                          const std::function<bool(const std::vector<double>&)>& enough) {
  std::vector<L2Result> runs;
  std::vector<double> dram;
  const auto run_until = [&](int count) {
    while (static_cast<int>(runs.size()) < count) {
      L2Options with_seed = options;
      with_seed.seed += runs.size();
      runs.push_back(simulate_l2(schedule, p, t, with_seed));
      dram.push_back(runs.back().total().dram());
    }
  };
  run_until(std::max(1, seeds));
  for (int n = std::max(1, seeds) + 2; n <= most_seeds && enough && !enough(dram); n += 2) run_until(n);
  std::sort(runs.begin(), runs.end(),
            [](const L2Result& a, const L2Result& b) { return a.total().dram() < b.total().dram(); });
  L2Range range;
  range.least = runs.front().total().dram();
  range.most = runs.back().total().dram();
  range.median = std::move(runs[(runs.size() - 1) / 2]);
  return range;
}

}  // namespace flashsim

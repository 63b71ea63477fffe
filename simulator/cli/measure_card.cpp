#include "simulator/cli/measure_card.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include "gpu_kernels/measure/measure.h"
#include "simulator/cli/build_info.h"
#include "simulator/cli/gpu_record.h"

namespace flashsim::cli {

std::vector<std::vector<int>> sides_of_launches(const std::vector<gpu::SmLatencies>& waits,
                                                const std::vector<std::vector<int>>& launches) {
  std::vector<std::vector<double>> rows;
  for (const gpu::SmLatencies& w : waits) rows.push_back(w.cycles);
  const std::vector<int> side = sides_of_sms(rows);
  if (std::count(side.begin(), side.end(), 1) == 0) return {};
  std::map<int, int> side_of;
  for (std::size_t i = 0; i < waits.size(); ++i) side_of[waits[i].sm] = side[i];
  std::vector<std::vector<int>> all;
  for (const std::vector<int>& launch : launches) {
    std::vector<int>& sides = all.emplace_back();
    for (const int sm : launch) {
      const auto found = side_of.find(sm);
      if (found == side_of.end())
        throw std::invalid_argument("SM " + std::to_string(sm) + " runs a thread block, but has no waits");
      sides.push_back(found->second);
    }
  }
  return all;
}

Card measure_card(const std::vector<std::int64_t>& buffer_bytes, int repeats) {
  const gpu::DeviceInfo device = gpu::device_info();
  Card card;
  card.device = device.name;
  card.driver = cuda_version(device.driver_version);
  card.cuda = cuda_version(device.runtime_version);
  card.date = utc_now();
  card.commit = commit();
  card.command = command_line();
  card.l2_bytes = device.l2_bytes;
  card.repeats = repeats;
  for (const gpu::SweepMeasurement& m : gpu::measure_reread(buffer_bytes, repeats))
    card.points.push_back({m.buffer_bytes, m.dram_read, m.l2_read, m.fabric, m.warm_miss_share});

  std::vector<std::vector<int>> launches;
  for (int blocks = 2; blocks < device.sm_count; blocks *= 2) launches.push_back(gpu::sms_of_launch(blocks));
  launches.push_back(gpu::sms_of_launch(device.sm_count));
  card.sides = sides_of_launches(gpu::measure_sm_latencies(), launches);
  card.partitions = card.sides.empty() ? 1 : 2;

  const Gpu* const known = gpu_of_device(device.name);
  Gpu described = known != nullptr ? *known : Gpu{};
  described.l2_bytes = card.l2_bytes;
  described.l2_partitions = card.partitions;
  described.sm_count = device.sm_count;
  card.usable = usable_share(described, card.points, repeats);
  return card;
}

}  // namespace flashsim::cli

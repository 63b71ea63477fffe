#include "gpu_kernels/measure/measure.h"

#include <algorithm>
#include <cstdlib>

#include "gpu_kernels/measure/range_session.h"
#include "gpu_kernels/measure/streams.h"

namespace flashsim::gpu {
namespace {

using Reason = CountersUnavailable::Reason;

constexpr int most_kernels = 64;

/// Reads a buffer of eight times L2: nothing of what was there before remains, dirty lines included.
class Flush {
 public:
  explicit Flush(std::int64_t l2_bytes)
      : buffer_(static_cast<std::size_t>(std::max<std::int64_t>(8 * l2_bytes, 64 << 20)) / 16 * 16),
        sink_(8) {
    buffer_.fill_bytes(0);
    sink_.fill_bytes(0);
  }
  void operator()() const { read_stream(buffer_.data(), buffer_.bytes(), sink_.data()); }

 private:
  DeviceBuffer buffer_, sink_;
};

const Counts& named(const std::vector<Counts>& all, const std::string& name) {
  for (const Counts& c : all)
    if (c.kernel == name) return c;
  throw CountersUnavailable(Reason::failed, "CUPTI returned no range called " + name);
}

}  // namespace

class Counters::Session {
 public:
  Session() : flush(device_info().l2_bytes) { flush(); }  // launched once before: its code is loaded now
  RangeSession ranges;
  Flush flush;
};

Counters::Counters() : session_(std::make_unique<Session>()) {}
Counters::~Counters() = default;

const std::string& Counters::chip() const { return session_->ranges.plan().chip(); }
int Counters::repeats() const { return session_->ranges.plan().passes(); }

Counts Counters::measure(const std::function<void()>& launch) {
  const std::vector<Counts> all = session_->ranges.run(Ranges::named, 2, [&] {
    session_->flush();
    session_->ranges.range("launch", launch);
    session_->ranges.range("flush", [&] { session_->flush(); });
  });
  Counts counts = named(all, "launch");
  counts.left_dirty = named(all, "flush").dram_write;
  return counts;
}

std::vector<Counts> Counters::measure_each(const std::function<void()>& launch) {
  std::vector<Counts> all = session_->ranges.run(Ranges::each_kernel, most_kernels, [&] {
    session_->flush();
    launch();
    session_->flush();
  });
  if (all.size() < 2)
    throw CountersUnavailable(Reason::failed, "CUPTI counted " + std::to_string(all.size()) +
                                                  " kernels, but two flushes alone were launched");
  // Ranges are called "0", "1", ... as launched; the first and the last are flushes.
  std::sort(all.begin(), all.end(), [](const Counts& a, const Counts& b) {
    return std::strtol(a.kernel.c_str(), nullptr, 10) < std::strtol(b.kernel.c_str(), nullptr, 10);
  });
  const double left_dirty = all.back().dram_write;
  all.pop_back();
  all.erase(all.begin());
  for (std::size_t i = 0; i < all.size(); ++i) all[i].kernel = std::to_string(i);
  if (!all.empty()) all.back().left_dirty = left_dirty;
  return all;
}

Counts Counters::measure(const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass,
                         const Tensors& x) {
  return measure([&] { kernel.launch(p, t, pass, x, nullptr); });
}

std::string why_no_counters() {
  try {
    RangeSession session;
    return {};
  } catch (const std::exception& e) {
    return e.what();
  }
}

int repeats_on(const std::string& chip, std::vector<std::string>* missing) {
  const MetricPlan plan(chip, {});
  if (missing != nullptr) *missing = plan.missing();
  return plan.passes();
}

std::vector<SweepMeasurement> measure_reread(const std::vector<std::int64_t>& buffer_bytes, int repeats) {
  Counters counters;
  std::int64_t most = 0;
  for (const std::int64_t bytes : buffer_bytes) most = std::max(most, bytes);
  const DeviceBuffer buffer(static_cast<std::size_t>(most)), sink(8);
  std::vector<SweepMeasurement> points;
  for (const std::int64_t bytes : buffer_bytes) {
    const Counts c = counters.measure(
        [&] { reread_stream(buffer.data(), static_cast<std::size_t>(bytes), repeats, sink.data()); });
    SweepMeasurement point;
    point.buffer_bytes = bytes;
    point.dram_read = c.dram_read;
    point.l2_read = c.l2_read;
    point.fabric = c.fabric;
    const auto once = static_cast<double>(bytes);
    point.warm_miss_share = (c.dram_read - once) / (once * (repeats - 1));
    points.push_back(point);
  }
  return points;
}

}  // namespace flashsim::gpu

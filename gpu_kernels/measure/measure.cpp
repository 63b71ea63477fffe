#include "gpu_kernels/measure/measure.h"

#include <algorithm>

#include "gpu_kernels/measure/range_session.h"
#include "gpu_kernels/measure/streams.h"

namespace flashsim::gpu {
namespace {

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
  RangeSession& ranges = session_->ranges;
  const std::map<std::string, Counts> all = ranges.run(2, [&] {
    session_->flush();
    ranges.range("launch", launch);
    ranges.range("flush", [&] { session_->flush(); });
  });
  Counts counts = all.at("launch");
  counts.left_dirty = all.at("flush").dram_write;
  return counts;
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

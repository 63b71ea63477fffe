// Hardware counters against launches whose traffic is known. Needs a GPU whose counters can be read.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gpu_kernels/measure/measure.h"
#include "gpu_kernels/measure/streams.h"

using namespace flashsim::gpu;

namespace {

constexpr std::size_t MiB = 1 << 20, large = 512 * MiB, small = 8 * MiB;

/// Closed only when all test cases are done: opening takes a second.
Counters* counters() {
  static const std::string reason = why_no_counters();
  static const std::unique_ptr<Counters> one = reason.empty() ? std::make_unique<Counters>() : nullptr;
  if (one == nullptr) MESSAGE("skipped, no counters: " << reason);
  return one.get();
}
double close_to(std::size_t bytes, double value) { return std::fabs(value / static_cast<double>(bytes) - 1); }

}  // namespace

TEST_CASE("a read-only stream: requested = L2 = DRAM bytes, nothing dirty") {
  Counters* c = counters();
  if (c == nullptr) return;
  DeviceBuffer from(large), sink(8);
  from.fill_bytes(1);
  const Counts r = c->measure([&] { read_stream(from.data(), large, sink.data()); });
  CHECK(close_to(large, r.requested_read) <= 0.002);
  CHECK(close_to(large, r.l2_read) <= 0.002);
  CHECK(close_to(large, r.dram_read) <= 0.01);
  CHECK(r.requested_write <= 64 * 1024);
  CHECK(r.left_dirty <= 2.0 * MiB);
  CHECK(r.seconds > 0);
}

TEST_CASE("a copy: written bytes are DRAM writes and dirty lines together") {
  Counters* c = counters();
  if (c == nullptr) return;
  DeviceBuffer from(large), to(large);
  from.fill_bytes(1);
  const Counts r = c->measure([&] { copy_stream(from.data(), to.data(), large); });
  CHECK(close_to(large, r.requested_read) <= 0.002);
  CHECK(close_to(large, r.requested_write) <= 0.002);
  CHECK(close_to(large, r.dram_read) <= 0.01);
  CHECK(close_to(large, r.dram_write + r.left_dirty) <= 0.02);
  CHECK(r.left_dirty > 0);
}

TEST_CASE("re-reading what fits L2 requests all of it and reads DRAM once") {
  Counters* c = counters();
  if (c == nullptr) return;
  DeviceBuffer from(small), sink(8);
  from.fill_bytes(1);
  const Counts r = c->measure([&] { reread_stream(from.data(), small, 20, sink.data()); });
  CHECK(close_to(20 * small, r.requested_read) <= 0.002);
  CHECK(close_to(small, r.dram_read) <= 0.02);
}

TEST_CASE("reductions are sent to L2 and are done there") {
  Counters* c = counters();
  if (c == nullptr) return;
  DeviceBuffer to(64 * MiB);
  to.fill_bytes(0);
  const Counts r = c->measure([&] { reduce_stream(to.data(), to.bytes()); });
  CHECK(close_to(to.bytes(), r.l2_reduce) <= 0.01);
  CHECK(close_to(to.bytes(), r.requested_write) <= 0.01);
  CHECK(r.requested_read <= 0.01 * static_cast<double>(to.bytes()));
}

TEST_CASE("bulk copies (TMA) count like those of threads") {
  Counters* c = counters();
  if (c == nullptr || device_info().compute_capability != 90) return;
  DeviceBuffer from(large), to(large);
  from.fill_bytes(1);
  const Counts r = c->measure([&] { bulk_copy_stream(from.data(), to.data(), large); });
  CHECK(close_to(large, r.requested_read) <= 0.002);
  CHECK(close_to(large, r.requested_write) <= 0.002);
  CHECK(close_to(large, r.dram_read) <= 0.01);
}

TEST_CASE("what a launch throws comes through, and the counters work afterwards") {
  Counters* c = counters();
  if (c == nullptr) return;
  CHECK_THROWS_AS(c->measure([] { throw Unsupported("not today"); }), Unsupported);
  DeviceBuffer from(small), sink(8);
  from.fill_bytes(1);
  const Counts r = c->measure([&] { read_stream(from.data(), small, sink.data()); });
  CHECK(close_to(small, r.requested_read) <= 0.01);
  CHECK(close_to(small, r.dram_read) <= 0.02);  // counted in another pass
}

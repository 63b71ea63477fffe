// Counters in a build without CUDA or without CUPTI's headers: every call says why there are none.
#include "gpu_kernels/measure/measure.h"

namespace flashsim::gpu {
namespace {
using Reason = CountersUnavailable::Reason;

CountersUnavailable unavailable() {
  const std::string no_gpu = why_no_gpu();
  if (!no_gpu.empty()) return {Reason::no_gpu, no_gpu};
  return {Reason::no_cupti,
          "this flashsim was built without CUPTI's headers, so it cannot read hardware counters; install the "
          "CUDA "
          "Toolkit's CUPTI (extras/CUPTI or libcupti-dev) and build again"};
}
}  // namespace

class Counters::Session {};
Counters::Counters() { throw unavailable(); }
Counters::~Counters() = default;
const std::string& Counters::chip() const { throw unavailable(); }
int Counters::repeats() const { throw unavailable(); }
Counts Counters::measure(const std::function<void()>&) { throw unavailable(); }
Counts Counters::measure(const Kernel&, const Problem&, const Tiling&, Pass, const Tensors&) {
  throw unavailable();
}

std::string why_no_counters() { return unavailable().what(); }
int repeats_on(const std::string&, std::vector<std::string>*) { throw unavailable(); }
std::vector<SweepMeasurement> measure_reread(const std::vector<std::int64_t>&, int) { throw unavailable(); }

}  // namespace flashsim::gpu

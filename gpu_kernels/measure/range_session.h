// One profiling session on the current device: ranges of launches, and their counter data.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu_kernels/measure/metric_plan.h"

namespace flashsim::gpu {

/// What makes a range: a name pushed around launches, or every kernel by itself.
enum class Ranges : std::uint8_t { named, each_kernel };

class RangeSession {
 public:
  /// Throws CountersUnavailable where the device gives no counters.
  RangeSession();
  RangeSession(const RangeSession&) = delete;
  RangeSession& operator=(const RangeSession&) = delete;
  ~RangeSession();

  const MetricPlan& plan() const { return *plan_; }
  /// Runs `body` once a pass and gives the counts of all its ranges, in order. With Ranges::named, `body`
  /// makes them by range(), at most `most_ranges`.
  std::vector<Counts> run(Ranges ranges, int most_ranges, const std::function<void()>& body);
  void range(const std::string& name, const std::function<void()>& launch);

 private:
  void configure(Ranges ranges, int most_ranges);
  std::unique_ptr<MetricPlan> plan_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  std::vector<std::uint8_t> data_;  // CUPTI writes into it until the data is decoded
};

}  // namespace flashsim::gpu

// One profiling session on the current device: ranges of launches, and their counter data.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu_kernels/measure/metric_plan.h"

namespace flashsim::gpu {

class RangeSession {
 public:
  /// Throws CountersUnavailable where the device gives no counters.
  RangeSession();
  RangeSession(const RangeSession&) = delete;
  RangeSession& operator=(const RangeSession&) = delete;
  ~RangeSession();

  const MetricPlan& plan() const { return *plan_; }
  /// Runs `body` once a pass and gives the counts of the `count` ranges that it makes by range(), by name.
  /// After an error the profiler is opened anew: what it has begun cannot be ended half way.
  std::map<std::string, Counts> run(int count, const std::function<void()>& body);
  void range(const std::string& name, const std::function<void()>& launch);

 private:
  void enable();
  void disable() noexcept;
  void configure(int count);
  std::map<std::string, Counts> run_passes(int count, const std::function<void()>& body);
  std::unique_ptr<MetricPlan> plan_;
  CUcontext context_ = nullptr;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  std::vector<std::uint8_t> data_;  // CUPTI writes into it until the data is decoded
};

}  // namespace flashsim::gpu

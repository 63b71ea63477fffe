// Names of counters to a configuration for a chip, and counter data to numbers. Needs no GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu_kernels/measure/cupti_library.h"

namespace flashsim::gpu {

/// One metric and where its value goes.
struct Metric {
  const char* name;
  double Counts::*to;
  double unit;  ///< bytes (or seconds) one count stands for
};

/// The metrics of Counts. A sector is 32 bytes.
const std::vector<Metric>& metrics();

class MetricPlan {
 public:
  /// `availability` may be empty (no GPU). Metrics the chip lacks are left out. Throws CountersUnavailable.
  MetricPlan(const std::string& chip, const std::vector<std::uint8_t>& availability);

  const std::string& chip() const { return chip_; }
  const std::vector<const char*>& names() const { return names_; }
  const std::vector<std::string>& missing() const { return missing_; }
  const std::vector<std::uint8_t>& config() const { return config_; }
  int passes() const { return passes_; }
  /// The counts of one range; NaN for what is missing. Throws CountersUnavailable where a counter that is
  /// not missing has no value.
  Counts evaluate(const std::vector<std::uint8_t>& counter_data, std::size_t range) const;

 private:
  struct Close {
    void operator()(CUpti_Profiler_Host_Object* host) const;
  };
  std::string chip_;
  std::vector<std::uint8_t> availability_;
  std::unique_ptr<CUpti_Profiler_Host_Object, Close> host_;
  std::vector<const Metric*> planned_;
  std::vector<const char*> names_;
  std::vector<std::string> missing_;
  std::vector<std::uint8_t> config_;
  int passes_ = 0;
};

}  // namespace flashsim::gpu

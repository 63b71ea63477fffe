#include "gpu_kernels/measure/metric_plan.h"

#include <cmath>
#include <limits>

namespace flashsim::gpu {

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = {
      {"l1tex__m_xbar2l1tex_read_bytes.sum", &Counts::requested_read, 1},
      {"l1tex__m_l1tex2xbar_write_bytes.sum", &Counts::requested_write, 1},
      {"lts__t_sectors_srcunit_tex_op_read.sum", &Counts::l2_read, 32},
      {"lts__t_sectors_srcunit_tex_op_write.sum", &Counts::l2_write, 32},
      {"lts__t_sectors_srcunit_tex_op_red.sum", &Counts::l2_reduce, 32},
      {"lts__t_sectors_srcunit_ltcfabric.sum", &Counts::fabric, 32},
      {"dram__bytes_read.sum", &Counts::dram_read, 1},
      {"dram__bytes_write.sum", &Counts::dram_write, 1},
      {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", &Counts::shared_wavefronts, 1},
      {"sm__inst_executed_pipe_tensor.sum", &Counts::tensor_instructions, 1},
      {"smsp__inst_executed.sum", &Counts::instructions, 1},
      {"gpu__time_duration.sum", &Counts::seconds, 1e-9},
  };
  return all;
}

void MetricPlan::Close::operator()(CUpti_Profiler_Host_Object* host) const {
  auto end = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params);
  end.pHostObject = host;
  cupti().cuptiProfilerHostDeinitialize(&end);
}

MetricPlan::MetricPlan(const std::string& chip, const std::vector<std::uint8_t>& availability)
    : chip_(chip), availability_(availability) {
  auto init = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params);
  init.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  init.pChipName = chip_.c_str();
  init.pCounterAvailabilityImage = availability_.empty() ? nullptr : availability_.data();
  FLASHSIM_CUPTI(cuptiProfilerHostInitialize, init);
  host_.reset(init.pHostObject);

  for (const Metric& m : metrics()) {
    auto properties = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_Host_GetMetricProperties_Params);
    properties.pHostObject = host_.get();
    properties.pMetricName = m.name;
    if (cupti().cuptiProfilerHostGetMetricProperties(&properties) == CUPTI_SUCCESS) {
      planned_.push_back(&m);
      names_.push_back(m.name);
    } else {
      missing_.push_back(m.name);
    }
  }
  auto add = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params);
  add.pHostObject = host_.get();
  add.ppMetricNames = names_.data();
  add.numMetrics = names_.size();
  FLASHSIM_CUPTI(cuptiProfilerHostConfigAddMetrics, add);
  auto size = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params);
  size.pHostObject = host_.get();
  FLASHSIM_CUPTI(cuptiProfilerHostGetConfigImageSize, size);
  config_.resize(size.configImageSize);
  auto image = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params);
  image.pHostObject = host_.get();
  image.configImageSize = config_.size();
  image.pConfigImage = config_.data();
  FLASHSIM_CUPTI(cuptiProfilerHostGetConfigImage, image);
  auto passes = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params);
  passes.configImageSize = config_.size();
  passes.pConfigImage = config_.data();
  FLASHSIM_CUPTI(cuptiProfilerHostGetNumOfPasses, passes);
  passes_ = static_cast<int>(passes.numOfPasses);
}

Counts MetricPlan::evaluate(const std::vector<std::uint8_t>& counter_data, std::size_t range) const {
  std::vector<double> values(names_.size(), std::numeric_limits<double>::quiet_NaN());
  std::vector<const char*> names = names_;
  auto evaluate = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params);
  evaluate.pHostObject = host_.get();
  evaluate.pCounterDataImage = counter_data.data();
  evaluate.counterDataImageSize = counter_data.size();
  evaluate.rangeIndex = range;
  evaluate.ppMetricNames = names.data();
  evaluate.numMetrics = names.size();
  evaluate.pMetricValues = values.data();
  FLASHSIM_CUPTI(cuptiProfilerHostEvaluateToGpuValues, evaluate);
  Counts counts;
  for (const Metric& m : metrics()) counts.*m.to = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    if (!std::isfinite(values[i]))
      throw CountersUnavailable(CountersUnavailable::Reason::failed,
                                std::string("CUPTI gave no value for ") + names_[i] + "; measure again");
    counts.*planned_[i]->to = values[i] * planned_[i]->unit;
  }
  return counts;
}

}  // namespace flashsim::gpu

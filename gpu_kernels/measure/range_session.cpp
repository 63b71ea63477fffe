#include "gpu_kernels/measure/range_session.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdlib>

#include "gpu_kernels/common/check.h"

namespace flashsim::gpu {
namespace {

using Reason = CountersUnavailable::Reason;

/// A function of the driver, which is not linked: without one the program still starts.
template <class Function>
Function driver_function(const char* name) {
  void* f = nullptr;
  cudaDriverEntryPointQueryResult found{};
  FLASHSIM_CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || f == nullptr)
    throw CountersUnavailable(Reason::no_gpu,
                              std::string("the driver has no ") + name + "; install a newer one");
  return reinterpret_cast<Function>(f);
}

void must_be_supported(CUdevice device) {
  auto support = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_DeviceSupported_Params);
  support.cuDevice = device;
  support.api = CUPTI_PROFILER_RANGE_PROFILING;
  FLASHSIM_CUPTI(cuptiProfilerDeviceSupported, support);
  if (support.isSupported == CUPTI_PROFILER_CONFIGURATION_SUPPORTED) return;
  const auto is_not = [](CUpti_Profiler_Support_Level level) {
    return level != CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  };
  std::string why;
  if (is_not(support.architecture)) why += " its architecture is older than Volta or newer than this CUPTI;";
  if (is_not(support.vGpu)) why += " it is a virtual GPU with profiling disabled;";
  if (is_not(support.confidentialCompute)) why += " confidential computing is on;";
  if (is_not(support.cmp)) why += " it is a mining card;";
  if (is_not(support.wsl)) why += " it runs under WSL;";
  if (is_not(support.sli)) why += " it is part of an SLI group;";
  throw CountersUnavailable(Reason::not_supported, "this GPU gives no counters:" + why +
                                                       " measure on another GPU, or compare with the records "
                                                       "in docs/measurements");
}

}  // namespace

RangeSession::RangeSession() {
  // First of all: without a driver some CUPTI calls crash instead of failing.
  const std::string no_gpu = why_no_gpu();
  if (!no_gpu.empty()) throw CountersUnavailable(Reason::no_gpu, no_gpu);
  cupti();
  int device = 0;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaFree(nullptr));  // makes the context
  CUcontext context = nullptr;
  CUdevice handle = 0;
  if (driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent")(&context) != CUDA_SUCCESS ||
      context == nullptr ||
      driver_function<CUresult (*)(CUdevice*, int)>("cuDeviceGet")(&handle, device) != CUDA_SUCCESS)
    throw CountersUnavailable(Reason::no_gpu,
                              "the driver gives no context for device " + std::to_string(device));

  auto initialise = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_Initialize_Params);
  FLASHSIM_CUPTI(cuptiProfilerInitialize, initialise);
  must_be_supported(handle);
  auto chip = FLASHSIM_CUPTI_PARAMS(CUpti_Device_GetChipName_Params);
  chip.deviceIndex = static_cast<std::size_t>(device);
  FLASHSIM_CUPTI(cuptiDeviceGetChipName, chip);
  // Fails while a session is active, and is the first call to notice missing privileges.
  auto available = FLASHSIM_CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability_Params);
  available.ctx = context;
  FLASHSIM_CUPTI(cuptiProfilerGetCounterAvailability, available);
  std::vector<std::uint8_t> availability(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = availability.data();
  FLASHSIM_CUPTI(cuptiProfilerGetCounterAvailability, available);
  plan_ = std::make_unique<MetricPlan>(chip.pChipName, availability);

  context_ = context;
  enable();
}

RangeSession::~RangeSession() { disable(); }

void RangeSession::enable() {
  auto p = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params);
  p.ctx = context_;
  FLASHSIM_CUPTI(cuptiRangeProfilerEnable, p);
  profiler_ = p.pRangeProfilerObject;
}

void RangeSession::disable() noexcept {
  if (profiler_ == nullptr) return;
  auto p = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params);
  p.pRangeProfilerObject = profiler_;
  cupti().cuptiRangeProfilerDisable(&p);
  profiler_ = nullptr;
}

void RangeSession::configure(int count) {
  std::vector<const char*> names = plan_->names();
  auto size = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params);
  size.pRangeProfilerObject = profiler_;
  size.pMetricNames = names.data();
  size.numMetrics = names.size();
  size.maxNumOfRanges = static_cast<std::size_t>(count);
  size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(count);
  FLASHSIM_CUPTI(cuptiRangeProfilerGetCounterDataSize, size);
  data_.assign(size.counterDataSize, 0);
  auto initialise = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
  initialise.pRangeProfilerObject = profiler_;
  initialise.counterDataSize = data_.size();
  initialise.pCounterData = data_.data();
  FLASHSIM_CUPTI(cuptiRangeProfilerCounterDataImageInitialize, initialise);
  auto config = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params);
  config.pRangeProfilerObject = profiler_;
  config.configSize = plan_->config().size();
  config.pConfig = const_cast<std::uint8_t*>(plan_->config().data());
  config.counterDataImageSize = data_.size();
  config.pCounterDataImage = data_.data();
  config.range = CUPTI_UserRange;
  config.replayMode = CUPTI_UserReplay;  // we repeat ourselves, so that L2 is emptied before every pass
  config.maxRangesPerPass = static_cast<std::size_t>(count);
  config.numNestingLevels = 1;
  config.minNestingLevel = 1;
  config.passIndex = 0;
  config.targetNestingLevel = 1;
  FLASHSIM_CUPTI(cuptiRangeProfilerSetConfig, config);
}

void RangeSession::range(const std::string& name, const std::function<void()>& launch) {
  auto push = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_PushRange_Params);
  push.pRangeProfilerObject = profiler_;
  push.pRangeName = name.c_str();
  FLASHSIM_CUPTI(cuptiRangeProfilerPushRange, push);
  const auto pop = [this] {
    auto p = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_PopRange_Params);
    p.pRangeProfilerObject = profiler_;
    return cupti().cuptiRangeProfilerPopRange(&p);
  };
  try {
    launch();
  } catch (...) {
    pop();
    throw;
  }
  check_cupti(pop(), "cuptiRangeProfilerPopRange");
}

std::map<std::string, Counts> RangeSession::run(int count, const std::function<void()>& body) {
  if (profiler_ == nullptr) enable();
  try {
    return run_passes(count, body);
  } catch (...) {
    disable();
    throw;
  }
}

std::map<std::string, Counts> RangeSession::run_passes(int count, const std::function<void()>& body) {
  configure(count);
  const auto stop = [this](bool& done) {
    auto p = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params);
    p.pRangeProfilerObject = profiler_;
    const CUptiResult result = cupti().cuptiRangeProfilerStop(&p);
    done = p.isAllPassSubmitted != 0;
    return result;
  };
  bool done = false;
  for (int pass = 0; !done; ++pass) {
    if (pass > plan_->passes() + 1)
      throw CountersUnavailable(Reason::failed, "counting has not ended after " + std::to_string(pass) +
                                                    " launches; a launch must do the same work each time");
    auto start = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params);
    start.pRangeProfilerObject = profiler_;
    FLASHSIM_CUPTI(cuptiRangeProfilerStart, start);
    try {
      body();
      FLASHSIM_CUDA_CHECK(cudaDeviceSynchronize());
    } catch (...) {
      stop(done);
      throw;
    }
    check_cupti(stop(done), "cuptiRangeProfilerStop");
  }
  auto decode = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData_Params);
  decode.pRangeProfilerObject = profiler_;
  FLASHSIM_CUPTI(cuptiRangeProfilerDecodeData, decode);
  auto info = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params);
  info.pCounterDataImage = data_.data();
  info.counterDataImageSize = data_.size();
  FLASHSIM_CUPTI(cuptiRangeProfilerGetCounterDataInfo, info);
  if (info.numTotalRanges != static_cast<std::size_t>(count) || decode.numOfRangeDropped > 0)
    throw CountersUnavailable(Reason::failed, "CUPTI counted " + std::to_string(info.numTotalRanges) +
                                                  " of " + std::to_string(count) + " ranges; measure again");
  std::map<std::string, Counts> all;
  for (std::size_t i = 0; i < info.numTotalRanges; ++i) {
    auto range = FLASHSIM_CUPTI_PARAMS(CUpti_RangeProfiler_CounterData_GetRangeInfo_Params);
    range.pCounterDataImage = data_.data();
    range.counterDataImageSize = data_.size();
    range.rangeIndex = i;
    range.rangeDelimiter = "/";
    FLASHSIM_CUPTI(cuptiRangeProfilerCounterDataGetRangeInfo, range);
    all.emplace(range.rangeName, plan_->evaluate(data_, i));
  }
  return all;
}

}  // namespace flashsim::gpu

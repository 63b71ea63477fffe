// CUPTI, opened when first needed: programs that never read counters run without it.
#pragma once

#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_target.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "gpu_kernels/measure/measure.h"

namespace flashsim::gpu {

#define FLASHSIM_CUPTI_FUNCTIONS(X)               \
  X(cuptiGetResultString)                         \
  X(cuptiGetErrorMessage)                         \
  X(cuptiProfilerInitialize)                      \
  X(cuptiProfilerDeviceSupported)                 \
  X(cuptiDeviceGetChipName)                       \
  X(cuptiProfilerGetCounterAvailability)          \
  X(cuptiProfilerHostInitialize)                  \
  X(cuptiProfilerHostDeinitialize)                \
  X(cuptiProfilerHostGetMetricProperties)         \
  X(cuptiProfilerHostConfigAddMetrics)            \
  X(cuptiProfilerHostGetConfigImageSize)          \
  X(cuptiProfilerHostGetConfigImage)              \
  X(cuptiProfilerHostGetNumOfPasses)              \
  X(cuptiProfilerHostEvaluateToGpuValues)         \
  X(cuptiRangeProfilerEnable)                     \
  X(cuptiRangeProfilerDisable)                    \
  X(cuptiRangeProfilerGetCounterDataSize)         \
  X(cuptiRangeProfilerCounterDataImageInitialize) \
  X(cuptiRangeProfilerSetConfig)                  \
  X(cuptiRangeProfilerStart)                      \
  X(cuptiRangeProfilerStop)                       \
  X(cuptiRangeProfilerPushRange)                  \
  X(cuptiRangeProfilerPopRange)                   \
  X(cuptiRangeProfilerDecodeData)                 \
  X(cuptiRangeProfilerGetCounterDataInfo)         \
  X(cuptiRangeProfilerCounterDataGetRangeInfo)

/// The functions of the library, under their own names.
struct CuptiLibrary {
#define FLASHSIM_CUPTI_MEMBER(name) decltype(&::name) name = nullptr;
  FLASHSIM_CUPTI_FUNCTIONS(FLASHSIM_CUPTI_MEMBER)
#undef FLASHSIM_CUPTI_MEMBER
};

/// Opens the library once: where the loader looks, else in the toolkit that this program was built with.
/// Throws CountersUnavailable (no_cupti).
const CuptiLibrary& cupti();

/// Throws CountersUnavailable with the call, CUPTI's words and a remedy unless `result` is success.
void check_cupti(CUptiResult result, const std::string& call);

/// A zeroed parameter block with its size filled in, as every CUPTI call wants it.
template <class Params>
Params sized(std::size_t struct_size) {
  Params p;
  std::memset(&p, 0, sizeof p);
  p.structSize = struct_size;
  return p;
}
#define FLASHSIM_CUPTI_PARAMS(type) ::flashsim::gpu::sized<type>(type##_STRUCT_SIZE)
#define FLASHSIM_CUPTI(function, params) ::flashsim::gpu::check_cupti(cupti().function(&(params)), #function)

}  // namespace flashsim::gpu

#include "gpu_kernels/measure/cupti_library.h"

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <vector>

namespace flashsim::gpu {
namespace {

using Reason = CountersUnavailable::Reason;

constexpr const char* install =
    "; install the CUDA Toolkit's CUPTI (Debian: libcupti-dev) or put the folder of libcupti.so and "
    "libnvperf_host.so into LD_LIBRARY_PATH";

void* open_library() {
  const std::string version = std::to_string(CUDA_VERSION / 1000);
  std::vector<std::string> names = {"libcupti.so." + version, "libcupti.so"};
#ifdef FLASHSIM_CUPTI_FOLDERS
  // Several folders, separated by colons. CUPTI looks for the two helpers by name alone: load them first.
  const std::string folders = FLASHSIM_CUPTI_FOLDERS;
  for (std::size_t begin = 0; begin < folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    names.push_back(folders.substr(begin, end - begin) + "/libcupti.so." + version);
    names.push_back(folders.substr(begin, end - begin) + "/libcupti.so");
    begin = end + 1;
  }
#endif
  for (const std::string& name : names) {
    const std::size_t slash = name.rfind('/');
    if (slash != std::string::npos)
      for (const char* helper : {"/libnvperf_host.so", "/libnvperf_target.so"})
        dlopen((name.substr(0, slash) + helper).c_str(), RTLD_LAZY | RTLD_GLOBAL);
    if (void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_GLOBAL)) return library;
  }
  throw CountersUnavailable(Reason::no_cupti, "hardware counters need CUPTI, and libcupti.so." + version +
                                                  " was not found" + install);
}

CuptiLibrary load() {
  void* library = open_library();
  CuptiLibrary functions;
#define FLASHSIM_CUPTI_LOAD(name)                                                                      \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name));                  \
  if (functions.name == nullptr)                                                                       \
    throw CountersUnavailable(Reason::no_cupti, "the CUPTI that was found is too old: it lacks " #name \
                                                "; CUDA 12.8 or newer is needed");
  FLASHSIM_CUPTI_FUNCTIONS(FLASHSIM_CUPTI_LOAD)
#undef FLASHSIM_CUPTI_LOAD
  return functions;
}

struct Remedy {
  Reason reason;
  const char* text;
};

Remedy remedy_for(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return {
          Reason::not_permitted,
          "the driver lets only administrators read counters: run as root or with CAP_SYS_ADMIN, or load the "
          "nvidia module with NVreg_RestrictProfilingToAdminUsers=0"};
    case CUPTI_ERROR_NOT_INITIALIZED:
      return {Reason::no_cupti,
              "CUPTI did not find libnvperf_host.so and libnvperf_target.so: put their folder into "
              "LD_LIBRARY_PATH; or the driver is too old for this CUPTI"};
    case CUPTI_ERROR_HARDWARE_BUSY:
      return {Reason::busy,
              "another profiler or monitor (ncu, DCGM, another process) holds the counters: stop it"};
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return {
          Reason::busy,
          "another CUPTI client (ncu, nsys, cuda-gdb, a framework's profiler) is active in this process: run "
          "without it"};
    case CUPTI_ERROR_INVALID_METRIC_NAME: return {Reason::not_supported, "this chip has no such counter"};
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
      return {Reason::not_supported, "the GPU is in MIG mode, which has no counters: use a whole GPU"};
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      return {Reason::not_supported, "confidential computing is on: counters need it off"};
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return {Reason::not_supported, "this virtual GPU has profiling disabled: ask whoever runs the host"};
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
      return {Reason::not_supported, "this driver gives no counters under WSL: measure on Linux itself"};
    case CUPTI_ERROR_INVALID_CHIP_NAME:
      return {Reason::not_supported, "this CUPTI does not know the chip: use a newer CUDA Toolkit"};
    case CUPTI_ERROR_NOT_SUPPORTED: return {Reason::not_supported, "this device or driver gives no counters"};
    case CUPTI_ERROR_UNKNOWN:
      return {Reason::not_supported,
              "usually the driver cannot be reached or a sandbox (such as gVisor) hides the counters: try "
              "outside it"};
    default: return {Reason::failed, nullptr};
  }
}

}  // namespace

const CuptiLibrary& cupti() {
  static const CuptiLibrary library = load();  // tried again on the next call if it throws
  return library;
}

void check_cupti(CUptiResult result, const std::string& call) {
  if (result == CUPTI_SUCCESS) return;
  const char *name = nullptr, *text = nullptr;
  cupti().cuptiGetResultString(result, &name);
  cupti().cuptiGetErrorMessage(result, &text);
  std::string message = call + " failed: " + (name != nullptr ? name : "unknown code") + " (" +
                        std::to_string(static_cast<int>(result)) + ")";
  if (text != nullptr && (name == nullptr || std::strcmp(name, text) != 0))
    message += std::string(": ") + text;
  const Remedy remedy = remedy_for(result);
  if (remedy.text != nullptr) message += std::string("; ") + remedy.text;
  throw CountersUnavailable(remedy.reason, message);
}

}  // namespace flashsim::gpu

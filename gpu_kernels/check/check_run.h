// Many cases, every kernel: the oracle works on all processor cores ahead of the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpu_kernels/check/kernel_check.h"

namespace flashsim::gpu {

struct CheckPlan {
  int random_cases = 100;  ///< after the adversarial ones
  std::uint64_t seed = 0;  ///< of the random ones
  std::string kernel;      ///< name or name/variant; empty: all
  std::vector<int> only;   ///< these cases alone, by their numbers; empty: all
  ChosenOrder order;       ///< instead of the kernels' own; kernels that have no other are left out
  int threads = 0;         ///< of the oracle; 0: all cores
};

struct CaseReport {
  int number = 0;  ///< adversarial cases first, then random ones
  Case c;
  std::vector<KernelReport> kernels;
};

/// How many cases a plan has, and the one of that number.
int count_cases(const CheckPlan& plan);
Case case_of(const CheckPlan& plan, int number);

/// Whether `filter` (CheckPlan::kernel) takes in the kernel.
bool matches(const std::string& filter, const Kernel& kernel);

/// Why `kernel` is not compared on `c` although it computes the problem; empty where it is. (cuBLAS products
/// know no mask, so Inf and NaN behind one spoil their rows.)
std::string why_not_checked(const Kernel& kernel, const Case& c);

/// Calls on_case for every case in order, on this thread. Needs a GPU; throws CudaError where there is none.
/// A launch that leaves the device unusable shows in its own report; the next case then throws CudaError.
void run_checks(const CheckPlan& plan, const std::function<void(const CaseReport&)>& on_case);

}  // namespace flashsim::gpu

// One kernel on one case: launched on poisoned outputs, compared with the oracle element by element.
#pragma once

#include <string>
#include <vector>

#include "gpu_kernels/check/chosen_order.h"
#include "gpu_kernels/check/inputs.h"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

/// "fa3" or "fa3/no-pingpong": what --kernel takes.
std::string full_name(const Kernel& kernel);

/// A way to run a kernel: the tilings it is asked for.
struct Variant {
  std::string label;  ///< e.g. "fa1, temporaries fp16"
  Tiling forward, backward;
};
/// The kernel's own choice, and what else changes results or addresses: fa1's narrow temporaries, decoding's
/// numbers of splits, fa2's deterministic backward pass, other orders of fa2's and fa3's thread blocks.
/// `order`: all of them in that order instead.
std::vector<Variant> variants_of(const Kernel& kernel, const Problem& p, const ChosenOrder& order = {});

/// Where this kernel rounds when it computes `p` with `t`.
KernelRoundings roundings_of(const Kernel& kernel, const Problem& p, const Tiling& t);

/// One result tensor compared. `worst` is the largest error over its tolerance, infinite where a value is not
/// finite although the oracle's is, or the other way round.
struct Comparison {
  std::string tensor;
  double worst = 0;
  std::size_t index = 0;  ///< of the worst element
  double got = 0, want = 0, tolerance = 0;
  std::string bound_fault;  ///< a tolerance that is no number or infinite: nothing has been shown then
  bool passed() const { return bound_fault.empty() && worst <= 1; }  // a NaN fails
};

/// Compares elementwise with tolerance[i] = bound.tolerance(size[i]) (size empty: absolute only). Where the
/// oracle is infinite because a row sees nothing (LSE) `exact_infinity` demands the same infinity, else any
/// non-finite value will do: an Inf may become NaN where a rounded zero meets it.
Comparison compare(const std::string& tensor, const std::vector<double>& got, const std::vector<double>& want,
                   const std::vector<double>& size, ElementBound bound, bool exact_infinity = false);

/// Inputs on the device, shared by all kernels of a case.
class DeviceInputs {
 public:
  DeviceInputs(const Problem& p, const Inputs& x);
  const Problem& problem() const { return p_; }
  /// q, k, v, d_o, s set; everything else null.
  Tensors tensors() const;

 private:
  Problem p_;
  DeviceBuffer q_, k_, v_, d_o_, s_;
};

struct KernelReport {
  std::string label;
  std::vector<Comparison> comparisons;
  std::string error;  ///< what a launch threw, or a fault of a bound; empty where all is well
  bool passed() const;
};

/// Forward, and backward where the kernel has it; nothing compared where it does not support the problem.
/// Outputs and workspace are filled with NaN patterns before each launch. CUDA errors end up in `error`.
KernelReport check_kernel(const Kernel& kernel, const Variant& variant, const DeviceInputs& inputs,
                          const Reference& reference);

}  // namespace flashsim::gpu

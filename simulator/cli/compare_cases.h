// Which cases `flashsim compare` and `flashsim measure` are about.
#pragma once

#include <string>
#include <vector>

#include "gpu_kernels/check/chosen_order.h"
#include "simulator/cli/problem_options.h"
#include "simulator/compare/record.h"

namespace flashsim::cli {

class CaseOptions {
 public:
  CaseOptions();
  void declare(Options& options);
  /// The cases asked for: a suite, a preset, or one problem. Throws UsageError.
  std::vector<KernelCase> cases() const;
  /// Whether anything but a kernel was asked for; else all records of that kernel are meant.
  bool given() const { return !suite_.empty() || !preset_.empty() || problem_.lengths_given(); }
  /// Whether --kernel and --backward take in a case.
  bool take(const KernelCase& c) const;
  bool is_suite() const { return !suite_.empty(); }
  const gpu::ChosenOrder& order() const { return order_; }

 private:
  std::string kernel_ = "all", suite_, preset_;
  bool backward_ = false;
  gpu::ChosenOrder order_;
  ProblemOptions problem_;
};

}  // namespace flashsim::cli

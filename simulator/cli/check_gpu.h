// flashsim check --gpu: the CUDA kernels against the oracle.
#pragma once

#include "gpu_kernels/check/check_run.h"
#include "simulator/cli/errors.h"
#include "simulator/cli/options.h"
#include "simulator/cli/output.h"

namespace flashsim::cli {

struct GpuCheckOptions {
  bool on = false;  ///< --gpu
  gpu::CheckPlan plan;

  void declare(Options& options);
  /// Throws UsageError where something was asked for that only --gpu does.
  void refuse_without_gpu() const;
};

/// Runs the plan and prints a table of the worst errors, and every failure with a command that repeats it.
/// Throws GpuNeededError, UsageError.
ExitCode check_on_gpu(const gpu::CheckPlan& plan, Output& out);

}  // namespace flashsim::cli

// What a measurement must say about itself: device, driver, clocks, date, commit and command.
#pragma once

#include "gpu_kernels/common/ceilings.h"
#include "gpu_kernels/kernels.h"
#include "simulator/cli/json.h"

namespace flashsim::cli {

/// Throws GpuNeededError with the reason where no GPU can be used.
void require_gpu(const std::string& command);

/// "13.0" for 13000.
std::string cuda_version(int version);

Json json_of(const gpu::DeviceInfo& device);
Json json_of(const gpu::Ceilings& ceilings);

/// The command line of this process, quoted for a shell.
std::string command_line();
/// Now, in UTC: "2026-11-30T02:15:00Z".
std::string utc_now();

/// json_document with "device", "date", "commit" and "command_line".
Json measurement_document(std::string_view command);

}  // namespace flashsim::cli

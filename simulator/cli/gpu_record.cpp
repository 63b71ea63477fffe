#include "simulator/cli/gpu_record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <iterator>

#include "simulator/cli/build_info.h"
#include "simulator/cli/errors.h"

namespace flashsim::cli {

void require_gpu(const std::string& command) {
  if (const std::string reason = gpu::why_no_gpu(); !reason.empty())
    throw GpuNeededError(fmt::format("flashsim {} needs a GPU: {}", command, reason));
}

std::string cuda_version(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Json json_of(const gpu::DeviceInfo& d) {
  return {{"name", d.name},
          {"compute_capability", fmt::format("{}.{}", d.compute_capability / 10, d.compute_capability % 10)},
          {"sm_count", d.sm_count},
          {"memory_bytes", d.memory_bytes},
          {"l2_bytes", d.l2_bytes},
          {"shared_memory_per_block", d.shared_memory_per_block},
          {"shared_memory_per_sm", d.shared_memory_per_sm},
          {"driver_cuda", cuda_version(d.driver_version)},
          {"runtime_cuda", cuda_version(d.runtime_version)}};
}

Json json_of(const gpu::Ceilings& c) {
  return {{"copy_bytes_per_s", c.copy_bytes_per_second},
          {"read_bytes_per_s", c.read_bytes_per_second},
          {"fp16_matmul_flops_per_s", c.fp16_flops_per_second},
          {"bf16_matmul_flops_per_s", c.bf16_flops_per_second},
          {"sm_clock_mhz_after_matmul", c.sm_clock_mhz_under_load},
          {"sm_clock_mhz_highest", c.sm_clock_mhz},
          {"memory_clock_mhz_highest", c.memory_clock_mhz}};
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string line, word;
  for (const char c : all) {
    if (c != '\0') {
      word += c;
      continue;
    }
    if (line.empty()) word = word.substr(word.rfind('/') + 1);  // the program, without its folder
    const bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\$`*?;&|<>()#~") == std::string::npos;
    line += (line.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
    word.clear();
  }
  return line;
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

Json measurement_document(std::string_view command) {
  Json document = json_document(command);
  document["device"] = json_of(gpu::device_info());
  document["date"] = utc_now();
  document["commit"] = commit();
  document["command_line"] = command_line();
  return document;
}

}  // namespace flashsim::cli

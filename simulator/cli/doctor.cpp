// flashsim doctor: what this machine can do, what is missing, and what to do about it.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "gpu_kernels/measure/measure.h"
#include "simulator/cli/build_info.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/gpu_record.h"

namespace flashsim::cli {
namespace {

struct Finding {
  std::string what, value;
  bool good = true;
  std::string remedy;  ///< where it is not good
};

std::vector<Finding> findings() {
  std::vector<Finding> all;
  all.push_back({"flashsim", fmt::format("{}, commit {}", FLASHSIM_VERSION, commit()), true, ""});
  all.push_back({"C++ compiler", cxx_compiler(), true, ""});
  all.push_back({"processor", fmt::format("{} threads", std::thread::hardware_concurrency()), true, ""});
  const std::string nvcc = cuda_compiler();
  all.push_back({"CUDA compiler", nvcc.empty() ? "none when flashsim was built" : nvcc, !nvcc.empty(),
                 "install the CUDA Toolkit 12.8 or newer, put nvcc on PATH and build again"});
  const std::size_t kernels = gpu::kernels().size();
  all.push_back({"CUDA kernels", kernels == 0 ? "not compiled" : fmt::format("{} compiled", kernels),
                 kernels > 0,
                 "./run.sh builds them where it finds nvcc and an NVIDIA driver, and with FLASHSIM_CUDA=ON "
                 "./run.sh without a driver, too"});
  const std::string no_gpu = gpu::why_no_gpu();
  if (no_gpu.empty()) {
    const gpu::DeviceInfo d = gpu::device_info();
    all.push_back({"GPU",
                   fmt::format("{}, {} SMs, {}, {} of L2", d.name, d.sm_count,
                               decimal_bytes(double(d.memory_bytes)), binary_bytes(double(d.l2_bytes))),
                   true, ""});
    all.push_back({"compute capability",
                   fmt::format("{}.{}", d.compute_capability / 10, d.compute_capability % 10), true, ""});
    all.push_back({"CUDA driver", cuda_version(d.driver_version), true, ""});
    all.push_back({"CUDA runtime", cuda_version(d.runtime_version), true, ""});
    const gpu::Kernel* const fa3 = gpu::find_kernel("fa3");
    Problem p;
    p.seqlen_q = p.seqlen_k = 128, p.head_dim = 128;
    const std::string fault = fa3 == nullptr
                                  ? "not compiled"
                                  : fa3->fault(p, fa3->tiling(p, gpu::Pass::forward), gpu::Pass::forward);
    all.push_back({"fa3", fault.empty() ? "runs" : fault, fault.empty(), "use fa2 on this card"});
    const std::string no_cublas = gpu::why_no_cublas();
    all.push_back({"cuBLAS", no_cublas.empty() ? "found" : "not found", no_cublas.empty(), no_cublas});
    const std::string counters = gpu::why_no_counters();
    all.push_back({"hardware counters", counters.empty() ? "readable (CUPTI)" : "not readable",
                   counters.empty(), counters});
  } else {
    all.push_back({"GPU", "none that can be used", false, no_gpu});
    all.push_back({"hardware counters", "none without a GPU", false,
                   "compare works against the recorded measurements"});
  }
  return all;
}

void print_findings(const std::vector<Finding>& all, Output& out) {
  for (const Finding& f : all) {
    const std::string mark = f.good ? out.style().green("ok     ") : out.style().yellow("missing");
    out.print(fmt::format("{}  {:<20}{}\n", mark, f.what, indented(wrapped(f.value, out.width() - 30), 29)));
    if (!f.good)
      out.print(
          fmt::format("{:29}{}\n", "", indented(wrapped(out.style().dim(f.remedy), out.width() - 30), 29)));
  }
}

void print_findings_json(const std::vector<Finding>& all, Output& out) {
  Json document = json_document("doctor");
  document["findings"] = Json::array();
  for (const Finding& f : all)
    document["findings"].push_back(
        {{"what", f.what}, {"value", f.value}, {"good", f.good}, {"remedy", f.good ? "" : f.remedy}});
  print_json(out, document);
}

}  // namespace

Command doctor_command() {
  return {"doctor",
          "what this machine can do, what is missing and what to do about it",
          {"flashsim doctor"},
          "Everything but the kernels works without CUDA and without a GPU. Exit code 4 where no GPU can be "
          "used.",
          [](Options&) -> Run {
            return [](Output& out) {
              const std::vector<Finding> all = findings();
              out.json() ? print_findings_json(all, out) : print_findings(all, out);
              return gpu::why_no_gpu().empty() ? ExitCode::ok : ExitCode::no_gpu;
            };
          }};
}

}  // namespace flashsim::cli

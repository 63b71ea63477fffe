#include "simulator/cli/measure_live.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "gpu_kernels/measure/workload.h"
#include "simulator/cli/build_info.h"
#include "simulator/cli/errors.h"
#include "simulator/cli/gpu_record.h"
#include "simulator/compare/settled.h"

namespace flashsim::cli {
namespace {

/// Where the launches of a case do not settle their median, it is measured up to so many times as often,
/// within so long.
constexpr int most_times = 4;
constexpr std::chrono::seconds most_time{2};

/// Why the case cannot be measured; empty where `record` has been filled.
std::string measure_into(Record& record, gpu::Counters& counters, const gpu::ChosenOrder& order, int launches,
                         bool tensors_apart) {
  const KernelCase c = record.what;
  const gpu::Kernel* kernel = gpu::find_kernel(c.kernel, c.variant);
  if (kernel == nullptr) return "this flashsim has no such kernel";
  const gpu::Pass pass = c.backward ? gpu::Pass::backward : gpu::Pass::forward;
  const Tiling tiling = order.of(kernel->tiling(c.problem, pass));
  try {
    std::optional<gpu::Workload> work;
    std::vector<Observed> observed;
    int in_order = 0;
    const auto move = [&] {
      work.reset();  // first: its memory may be needed
      work.emplace(*kernel, c.problem, tiling, pass,
                   gpu::Layout{static_cast<unsigned>(observed.size()), tensors_apart});
    };
    move();
    work->launch();  // loads the code
    gpu::synchronize();
    const auto measure_until = [&](int enough, int most) {
      for (int i = 0; in_order < enough && i < most; ++i) {
        if (!observed.empty()) move();
        observed.push_back(observed_of(counters.measure([&] { work->launch(); })));
        in_order += !disturbed(observed.back());
      }
    };
    measure_until(launches, launches + 2);  // where something else used the GPU meanwhile, up to twice more
    const auto median_is_known = [&] {
      std::vector<double> bytes;
      for (const Observed& o : observed)
        if (!disturbed(o)) bytes.push_back(o.dram());
      return settled(bytes);
    };
    const auto start = std::chrono::steady_clock::now();
    for (int n = launches; launches > 1 && n < most_times * launches && !median_is_known(); ++n) {
      if (std::chrono::steady_clock::now() - start > most_time) break;
      measure_until(in_order + 1, 1);
    }
    record = record_of(c, tiling, std::move(observed));
    return {};
  } catch (const gpu::Unsupported& e) {
    return e.what();
  } catch (const gpu::CountersUnavailable& e) {
    return e.what();
  } catch (const gpu::CudaError& e) {
    std::string message = e.what();
    if (message.find("out of memory") == std::string::npos) throw;  // the device may be unusable now
    return message;
  }
}

}  // namespace

std::string why_no_measurement() { return gpu::why_no_counters(); }

Observed observed_of(const gpu::Counts& c) {
  Observed o;
  o.requested_read = c.requested_read;
  o.requested_written = c.requested_write;
  o.l2_read = c.l2_read;
  o.l2_written = c.l2_write;
  o.l2_reduced = c.l2_reduce;
  o.fabric = c.fabric;
  o.dram_read = c.dram_read;
  o.dram_written = c.dram_write;
  o.left_dirty = c.left_dirty;
  o.shared_wavefronts = c.shared_wavefronts;
  o.tensor_instructions = c.tensor_instructions;
  o.instructions = c.instructions;
  o.seconds = c.seconds;
  return o;
}

Records measure_cases(const std::vector<KernelCase>& cases, const gpu::ChosenOrder& order, int launches,
                      const Progress& progress, bool tensors_apart) {
  const std::string reason = why_no_measurement();
  if (!reason.empty()) throw GpuNeededError(reason);
  gpu::Counters counters;
  const gpu::DeviceInfo device = gpu::device_info();
  Records all;
  all.device = device.name;
  all.driver = cuda_version(device.driver_version);
  all.cuda = cuda_version(device.runtime_version);
  all.date = utc_now();
  all.commit = commit();
  all.command = command_line();
  all.tensors_apart = tensors_apart;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Record record;
    record.what = cases[i];
    const std::string fault = measure_into(record, counters, order, launches, tensors_apart);
    if (fault.empty()) all.records.push_back(record);
    progress(fmt::format("[{}/{}] {}{}", i + 1, cases.size(), describe(cases[i]),
                         fault.empty() ? "" : ": left out, " + fault));
  }
  return all;
}

}  // namespace flashsim::cli

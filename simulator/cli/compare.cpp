// flashsim compare: simulated against measured bytes, live where a GPU's counters can be read, else against
// records.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "simulator/cli/commands.h"
#include "simulator/cli/compare_cases.h"
#include "simulator/cli/compare_report.h"
#include "simulator/cli/measure_live.h"
#include "simulator/compare/shipped_records.h"

namespace flashsim::cli {
namespace {

struct Arguments {
  CaseOptions cases;
  bool live = false, shipped = false, tensors = false, as_csv = false;
  std::string records, svg_file, gpu;
  int seeds = 1;
};

Records read_records(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw InputError("there is no file of records " + path +
                     "; write one with `flashsim measure --record FILE` on a machine with a GPU, or name one "
                     "with --records");
  try {
    return records_from_json({std::istreambuf_iterator<char>(file), {}});
  } catch (const RecordError& e) {
    throw InputError(path + ": " + e.what());
  }
}

void write_file(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

/// The wanted cases' records; those that are missing are named in the report.
void choose_recorded(CompareReport& report, const Arguments& a) {
  report.source = a.records.empty() ? records_from_json(std::string(shipped_records("h200_kernels.json")))
                                    : read_records(a.records);
  std::vector<Record> chosen;
  if (!a.cases.given()) {
    for (const Record& r : report.source.records)
      if (a.cases.take(r.what)) chosen.push_back(r);
  } else {
    for (const KernelCase& c : a.cases.cases())
      if (const Record* r = report.source.find(c))
        chosen.push_back(*r);
      else
        report.left_out.push_back(describe(c) + ": there is no record of it");
  }
  report.source.records = std::move(chosen);
}

/// Simulates the records' cases on all processors; the order stays.
void simulate(CompareReport& report, int seeds) {
  L2Options options;
  options.gpu = report.gpu;
  const std::vector<Record>& records = report.source.records;
  std::vector<ByteComparison> done(records.size());
  std::vector<std::string> fault(records.size());
  std::vector<std::exception_ptr> error(records.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < records.size();) try {
        done[i] = compare(records[i], options, seeds);
      } catch (const std::invalid_argument& e) {
        fault[i] = describe(records[i].what) + ": " + e.what();
      } catch (...) {
        error[i] = std::current_exception();
      }
  };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < std::min<std::size_t>(std::thread::hardware_concurrency(), records.size()); ++t)
    others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (error[i] != nullptr) std::rethrow_exception(error[i]);
    if (fault[i].empty())
      report.comparisons.push_back(std::move(done[i]));
    else
      report.left_out.push_back(fault[i]);
  }
}

ExitCode run(Output& out, const Arguments& a) {
  CompareReport report;
  if (a.live + a.shipped + !a.records.empty() > 1)
    throw UsageError("--live, --recorded and --records exclude each other; give one of them");
  const bool may_measure = a.records.empty() && !a.shipped;
  const std::string no_counters = may_measure ? why_no_measurement() : "";
  if (a.live && !no_counters.empty()) throw GpuNeededError("--live: " + no_counters);
  report.live = may_measure && no_counters.empty();
  if (report.live) {
    report.source = measure_cases(a.cases.cases(), a.cases.order(), [&](const std::string& line) {
      out.note(line);
      if (line.find(": left out") != std::string::npos) report.left_out.push_back(line);
    });
  } else {
    if (a.cases.order())
      throw UsageError("--order needs a GPU to measure on; records keep the order that was measured");
    choose_recorded(report, a);
  }
  report.gpu = a.gpu.empty() ? gpu_of_device(report.source.device) : find_gpu(a.gpu);
  if (report.gpu == nullptr)
    throw UsageError(
        (a.gpu.empty() ? "no data on the device \"" + report.source.device + "\"; give the closest with --gpu"
                       : "--gpu: there is no GPU \"" + a.gpu + "\"") +
        "; expected " + gpu_names());
  if (report.source.records.empty())
    throw InputError("nothing to compare: " +
                     (report.left_out.empty() ? "no record of that kernel" : report.left_out.front()));

  simulate(report, a.seeds);
  if (!a.svg_file.empty()) write_file(a.svg_file, svg(report));
  const Summary summary = summarise(report.comparisons);
  if (out.json()) {
    print_compare_json(out, report);
  } else if (a.as_csv) {
    out.print(csv(report));
  } else {
    print_text(out, report, a.tensors);
    if (report.comparisons.size() > 1) out.print("\n" + text_of(summary));
  }
  for (const std::string& reason : report.left_out) out.note("left out: " + reason);
  return a.cases.is_suite() && !summary.met() ? ExitCode::check_failed : ExitCode::ok;
}

}  // namespace

Command compare_command() {
  return {
      "compare",
      "simulated against measured bytes, per kernel, tensor and level",
      {"flashsim compare --live --kernel fa2 --n 4096",
       "flashsim compare --live --kernel all --preset ladder", "flashsim compare --live --suite bytes-v1"},
      "Requested bytes are what thread blocks load from and store to memory; DRAM bytes are what is left "
      "of them "
      "after L2. Measures on this machine's GPU where its counters can be read, and compares with the "
      "records of "
      "an H200 elsewhere; the output says which. With --suite the exit code is 1 where a bar is missed.",
      [](Options& options) -> Run {
        auto a = std::make_shared<Arguments>();
        a->cases.declare(options);
        options.heading("Measurement");
        options.flag("--live", a->live, "measure now, and fail where that is not possible");
        options.flag("--recorded", a->shipped,
                     "compare with the records of an H200, even where there is a GPU");
        options.text("--records", "FILE", a->records, "compare with what `flashsim measure --record` wrote");
        options.text("--gpu", "NAME", a->gpu, "the GPU to simulate, instead of the one measured on");
        options.integer("--seeds", a->seeds, 1, 1000,
                        "simulate DRAM bytes with N random seeds; the median counts, the range is shown");
        options.heading("Report");
        options.flag("--tensors", a->tensors, "a row for every tensor and kernel, too");
        options.flag("--csv", a->as_csv, "every row as CSV");
        options.text("--svg", "FILE", a->svg_file, "write a bar chart");
        return [a](Output& out) { return run(out, *a); };
      }};
}

}  // namespace flashsim::cli

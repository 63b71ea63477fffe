// flashsim compare: simulated against measured bytes, live where a GPU's counters can be read, else against
// records.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "simulator/cli/card_data.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/compare_cases.h"
#include "simulator/cli/compare_report.h"
#include "simulator/cli/measure_live.h"
#include "simulator/cli/picture.h"
#include "simulator/compare/ncu.h"
#include "simulator/compare/shipped_records.h"

namespace flashsim::cli {
namespace {

struct Arguments {
  CaseOptions cases;
  CardOptions card;
  bool live = false, shipped = false, tensors = false, as_csv = false;
  std::string records, ncu, ncu_kernel, chart, gpu;
  std::optional<int> block_q, block_k;  // of the kernel that Nsight Compute profiled
  std::optional<int> seeds;             // not given: several for a suite, whose bars are of medians
  std::optional<int> repeats;           // launches of a case that are measured
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

/// One record from Nsight Compute's report: the launches whose name holds --ncu-kernel, together.
void choose_profiled(CompareReport& report, const Arguments& a) {
  const std::vector<KernelCase> cases = a.cases.cases();
  if (cases.size() != 1 || a.cases.is_suite())
    throw UsageError(
        "--ncu compares one schedule; name it with --kernel, and the problem with --n, --heads ...");
  std::ifstream file(a.ncu);
  if (!file) throw InputError("--ncu: there is no file " + a.ncu + "; write it with `ncu --csv ... > FILE`");
  std::vector<NcuKernel> kernels;
  try {
    kernels = ncu_kernels_from_csv({std::istreambuf_iterator<char>(file), {}});
  } catch (const RecordError& e) {
    throw InputError(a.ncu + ": " + e.what());
  }
  std::string names;
  std::vector<NcuKernel> chosen;
  for (const NcuKernel& k : kernels) {
    if (k.name.find(a.ncu_kernel) != std::string::npos) chosen.push_back(k);
    names += (names.empty() ? "" : "; ") + k.name;
  }
  if (chosen.empty())
    throw InputError(a.ncu + ": no launch is called \"" + a.ncu_kernel + "\"; there are: " + names);
  Record record;
  record.what = cases[0];
  const Algorithm* algorithm = find_algorithm(record.what.kernel);
  if (algorithm == nullptr)
    throw UsageError("--ncu: there is no schedule \"" + record.what.kernel +
                     "\"; `flashsim algorithms` lists them");
  record.tiling = algorithm->tiling(record.what.problem);
  record.tiling.block_q = a.block_q.value_or(record.tiling.block_q);
  record.tiling.block_k = a.block_k.value_or(record.tiling.block_k);
  record.tiling = a.cases.order().of(record.tiling);
  record.observed = sum_of(chosen);
  report.source.device = "Nsight Compute, " + a.ncu + ", " + std::to_string(chosen.size()) +
                         (chosen.size() == 1 ? " launch" : " launches");
  report.source.records = {record};
}

/// Simulates the records' cases on all processors; the order stays.
void simulate(CompareReport& report, const std::optional<Card>& card, int seeds, int most_seeds) {
  L2Options options;
  options.gpu = report.gpu;
  options.card = card ? &*card : nullptr;
  options.tensors_apart = report.source.tensors_apart;
  const std::vector<Record>& records = report.source.records;
  std::vector<ByteComparison> done(records.size());
  std::vector<std::string> fault(records.size());
  std::vector<std::exception_ptr> error(records.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < records.size();) try {
        done[i] = compare(records[i], options, seeds, most_seeds);
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
  const bool profiled = !a.ncu.empty();
  if (a.live + a.shipped + !a.records.empty() + profiled > 1)
    throw UsageError("--live, --recorded, --records and --ncu exclude each other; give one of them");
  if (!profiled && (!a.ncu_kernel.empty() || a.block_q || a.block_k))
    throw UsageError("--ncu-kernel, --block-q and --block-k describe what --ncu FILE holds; give that, too");
  const bool may_measure = a.records.empty() && !a.shipped && !profiled;
  const std::string no_counters = may_measure ? why_no_measurement() : "";
  if (a.live && !no_counters.empty()) throw GpuNeededError("--live: " + no_counters);
  report.live = may_measure && no_counters.empty();
  if (profiled) {
    choose_profiled(report, a);
  } else if (report.live) {
    report.source = measure_cases(a.cases.cases(), a.cases.order(), a.repeats.value_or(default_launches),
                                  [&](const std::string& line) {
                                    out.note(line);
                                    if (line.find(": left out") != std::string::npos)
                                      report.left_out.push_back(line);
                                  });
  } else {
    if (a.cases.order().given())
      throw UsageError(
          "--order and --heads-together need a GPU to measure on; records keep the order that was measured");
    if (a.repeats)
      throw UsageError("--repeats needs a GPU to measure on; records keep the launches that were measured");
    choose_recorded(report, a);
  }
  report.gpu = a.gpu.empty() && profiled ? find_gpu("h200")
               : a.gpu.empty()           ? gpu_of_device(report.source.device)
                                         : find_gpu(a.gpu);
  if (report.gpu == nullptr)
    throw UsageError(
        (a.gpu.empty() ? "no data on the device \"" + report.source.device + "\"; give the closest with --gpu"
                       : "--gpu: there is no GPU \"" + a.gpu + "\"") +
        "; expected " + gpu_names());
  if (report.source.records.empty())
    throw InputError("nothing to compare: " +
                     (report.left_out.empty() ? "no record of that kernel" : report.left_out.front()));

  // Of another GPU than the one measured on, only what comes with flashsim is known.
  const bool another = profiled || !a.gpu.empty();
  const ChosenCard card =
      a.card.for_device(!another                         ? report.source.device
                        : report.gpu == find_gpu("h200") ? "NVIDIA H200"
                                                         : std::string(report.gpu->title));
  report.card = card.source;
  const bool of_medians = !a.seeds && a.cases.is_suite();
  simulate(report, card.card, a.seeds.value_or(of_medians ? 3 : 1), of_medians ? 25 : 0);
  if (wants_numbers(a.chart))
    write_numbers(csv(report), a.chart);
  else if (!a.chart.empty())
    write_picture(svg(report), a.chart);
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
        options.integer(
            "--repeats", a->repeats, 1, 99,
            "measure N launches of each case, up to 4 N where they differ too much to tell their median; "
            "the median of their DRAM bytes counts, the range is shown");
        options.flag("--recorded", a->shipped,
                     "compare with the records of an H200, even where there is a GPU");
        options.text("--records", "FILE", a->records, "compare with what `flashsim measure --record` wrote");
        options.text("--ncu", "FILE", a->ncu,
                     "compare with what `ncu --csv` printed; --kernel and the problem say which schedule");
        options.text("--ncu-kernel", "TEXT", a->ncu_kernel, "only launches whose name holds this, summed");
        options.integer("--block-q", a->block_q, 1, 1 << 20, "rows of Q a tile of that kernel");
        options.integer("--block-k", a->block_k, 1, 1 << 20, "rows of K and V a tile of that kernel");
        options.text("--gpu", "NAME", a->gpu, "the GPU to simulate, instead of the one measured on");
        a->card.declare(options);
        options.integer("--seeds", a->seeds, 1, 1000,
                        "simulate DRAM bytes with N random seeds (default 1; for a suite 3, and up to 25 "
                        "where those differ too much to tell the median); the median counts, the range "
                        "is shown");
        options.heading("Report");
        options.flag("--tensors", a->tensors, "a row for every tensor and kernel, too");
        options.flag("--csv", a->as_csv, "every row as CSV");
        options.value("--chart", "FILE",
                      "a bar chart as .svg or .png (needs rsvg-convert) too, or every row as .csv",
                      [a](const std::string& text) {
                        require_picture("--chart", text);
                        a->chart = text;
                      });
        return [a](Output& out) { return run(out, *a); };
      }};
}

}  // namespace flashsim::cli

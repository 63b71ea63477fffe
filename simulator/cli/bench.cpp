// flashsim bench: how fast the kernels are, and what the card can do at best.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "gpu_kernels/check/check_run.h"
#include "simulator/cli/bench_suites.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/gpu_record.h"
#include "simulator/cli/order_options.h"
#include "simulator/cli/problem_options.h"
#include "simulator/cli/table.h"

namespace flashsim::cli {
namespace {

using gpu::Pass;

struct BenchOptions {
  ProblemOptions problem{
      {.batch = 4, .heads_q = 16, .heads_kv = 16, .seqlen_q = 4096, .seqlen_k = 4096, .head_dim = 128}};
  std::string kernel, suite = "gap";
  std::optional<Pass> pass;
  gpu::ChosenOrder order;
  int warmup = 3, repeats = 20;

  void declare(Options& options) {
    options.heading("What to time");
    std::vector<std::pair<std::string, std::string>> names = {{"all", "all"}};
    for (const Suite& s : suites()) names.emplace_back(s.name, s.name);
    options.choice("--suite", suite, names,
                   "a list of problems (default gap); with --n: that problem instead");
    options.text("--kernel", "NAME", kernel, "only this kernel (flashsim kernels lists them)");
    options.choice(
        "--pass", pass,
        std::vector<std::pair<std::string, Pass>>{{"forward", Pass::forward}, {"backward", Pass::backward}},
        "which pass (default both)");
    cli::declare(options, order);
    options.integer("--warmup", warmup, 0, 1000,
                    "uncounted launches at the start of a block, at least (and 10 ms)");
    options.integer("--repeats", repeats, 5, 10000, "launches of which the median is taken, fewer if slow");
    problem.declare(options);
  }

  std::vector<BenchJob> jobs() const {
    std::vector<BenchJob> all;
    const auto add = [&all](const std::vector<BenchJob>& more) {
      all.insert(all.end(), more.begin(), more.end());
    };
    if (problem.lengths_given()) {
      std::vector<std::string> every;
      for (const gpu::Kernel& k : gpu::kernels()) every.push_back(k.name);
      add(jobs_of("", every, problem.problem()));
    } else {
      for (const Suite& s : suites())
        if (suite == "all" || suite == s.name) add(jobs_of(s));
    }
    const auto unwanted = [this](const BenchJob& job) {
      return !gpu::matches(kernel, *job.kernel) || (pass && job.pass != *pass);
    };
    all.erase(std::remove_if(all.begin(), all.end(), unwanted), all.end());
    for (BenchJob& job : all) job.tiling = order.of(job.tiling);
    if (all.empty())
      throw UsageError("nothing to time: no kernel of this name computes these problems in this pass");
    return all;
  }
};

std::string label_of(const BenchJob& job) {
  const bool narrow = job.kernel->name == "fa1" && job.tiling.temporaries == job.problem.dtype;
  const Tiling own = job.kernel->tiling(job.problem, job.pass);
  gpu::ChosenOrder other;
  if (job.tiling.order != own.order) other.order = job.tiling.order;
  if (job.tiling.heads_together != own.heads_together) other.heads_together = job.tiling.heads_together;
  return gpu::full_name(*job.kernel) +
         (narrow ? fmt::format(", {} temporaries", name_of(job.problem.dtype)) : "") +
         (other.given() ? ", " + gpu::describe(other) : "");
}

std::string rate_of(const BenchResult& r) {
  return bound_of(*r.job.kernel) == Bound::matmul ? fmt::format("{:.1f} TFLOP/s", r.rate * 1e-12)
                                                  : fmt::format("{:.0f} GB/s", r.rate * 1e-9);
}

void print_results(const gpu::Ceilings& c, const std::vector<BenchResult>& results, Output& out) {
  out.print(fmt::format(
      "{}. Ceilings, measured now: copy {:.0f} GB/s, read {:.0f} GB/s, matrix products fp16 "
      "{:.0f} and bf16 {:.0f} TFLOP/s, SM clock then {:.0f} MHz\n",
      gpu::device_info().name, c.copy_bytes_per_second * 1e-9, c.read_bytes_per_second * 1e-9,
      c.fp16_flops_per_second * 1e-12, c.bf16_flops_per_second * 1e-12, c.sm_clock_mhz_under_load));
  std::string suite = "-";
  Problem problem;
  std::unique_ptr<Table> table;
  const auto flush = [&] {
    if (table != nullptr) out.print(table->text(out.style(), out.width()));
  };
  for (const BenchResult& r : results) {
    if (table == nullptr || r.job.suite != suite || r.job.problem != problem) {
      flush();
      suite = r.job.suite, problem = r.job.problem;
      out.print("\n" + out.style().bold(describe(problem)) + "\n");
      table = std::make_unique<Table>(std::vector<Column>{{"kernel", Align::left},
                                                          {"pass", Align::left},
                                                          {"median"},
                                                          {"fastest", Align::right, 2},
                                                          {"rate"},
                                                          {"of ceiling"}});
    }
    table->row({label_of(r.job), r.job.pass == Pass::forward ? "forward" : "backward", seconds(r.median),
                seconds(r.fastest), rate_of(r), fmt::format("{:.1f} %", 100 * r.share)});
  }
  flush();
}

Json result_json(const BenchResult& r) {
  const Bound bound = bound_of(*r.job.kernel);
  return {{"suite", r.job.suite},
          {"kernel", label_of(r.job)},
          {"pass", r.job.pass == Pass::forward ? "forward" : "backward"},
          {"problem", json_of(r.job.problem)},
          {"tiling", json_of(r.job.tiling)},
          {"seconds_median", r.median},
          {"seconds_fastest", r.fastest},
          {"seconds_slowest", r.slowest},
          {"repeats", r.repeats},
          {"flops", r.flops},
          {"bytes", r.bytes},
          {"rate", r.rate},
          {"rate_unit", bound == Bound::matmul ? "FLOP/s" : "bytes/s"},
          {"ceiling", bound == Bound::matmul ? "matmul"
                      : bound == Bound::read ? "read"
                                             : "copy"},
          {"share_of_ceiling", r.share}};
}

ExitCode run(const BenchOptions& o, Output& out) {
  require_gpu("bench");
  const std::vector<BenchJob> jobs = o.jobs();
  Json document = measurement_document("bench");
  const gpu::Ceilings ceilings = gpu::measure_ceilings();
  Bench bench(ceilings, o.warmup, o.repeats);
  std::vector<BenchResult> results;
  for (const BenchJob& job : jobs) {
    if (const std::string fault = bench.fault(job); !fault.empty()) {
      out.note(fmt::format("left out: {} on {}: {}", label_of(job), describe(job.problem), fault));
      continue;
    }
    results.push_back(bench.run(job));
    out.note(fmt::format("{}/{} {} {}: {}", results.size(), jobs.size(), label_of(job),
                         job.pass == Pass::forward ? "forward" : "backward", rate_of(results.back())));
  }
  if (results.empty())
    throw InputError(fmt::format(
        "none of the {} kernels and problems could be timed; the messages above say why", jobs.size()));
  if (!out.json()) {
    print_results(ceilings, results, out);
    return ExitCode::ok;
  }
  document["ceilings"] = json_of(ceilings);
  document["results"] = Json::array();
  for (const BenchResult& r : results) document["results"].push_back(result_json(r));
  print_json(out, document);
  return ExitCode::ok;
}

}  // namespace

Command bench_command() {
  return {
      "bench",
      "time the CUDA kernels, beside what the card can do at best",
      {"flashsim bench", "flashsim bench --suite decoding", "flashsim bench --n 4K -d 128 --causal --json"},
      "Medians of many launches on N(0, 1) data (power, hence the clock, depends on the data), in blocks "
      "that begin with a rest and a warm-up, so that all meet the card in the same state; "
      "L2 flushed where the bound is a bandwidth. FLOPs count 4 d a visible pair of query and key forward "
      "and "
      "10 d backward. Ceilings are measured in the same run: cuBLAS products of 8192^3, a copy, a read.",
      [](Options& options) -> Run {
        auto o = std::make_shared<BenchOptions>();
        o->declare(options);
        return [o](Output& out) { return run(*o, out); };
      }};
}

}  // namespace flashsim::cli

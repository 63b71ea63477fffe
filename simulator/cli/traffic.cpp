// flashsim traffic: what each algorithm moves, computes and needs, counted by running its schedule.
#include <fmt/format.h>

#include <memory>

#include "simulator/cli/commands.h"
#include "simulator/cli/presets.h"
#include "simulator/cli/traffic_options.h"

namespace flashsim::cli {
namespace {

ExitCode run_traffic(const TrafficOptions& o, Output& out) {
  if (!o.chart.empty() && !o.sweep)
    throw UsageError("--chart draws a sweep; say which with --sweep, e.g. --sweep n=256:32768");
  if (!o.preset.empty()) {
    run_preset(o.preset, out);
    return ExitCode::ok;
  }
  if (o.sweep) {
    run_sweep(o, out);
    return ExitCode::ok;
  }
  const Problem p = o.problem.problem();
  std::vector<PassReport> reports;
  for (const Candidate& c : o.chosen(p))
    for (const Pass pass : o.passes) {
      if (!c.has(pass == Pass::backward)) continue;
      reports.push_back(report(o, c, pass, p, o.tiling_of(c, p)));
      if (const PassReport& r = reports.back(); o.sram == Placement::paper && !r.paper.overflow.empty())
        out.note(fmt::format("warning: {} {}: {}", c.name(), name_of(pass), r.paper.overflow));
    }
  if (out.json()) {
    print_reports_json(reports, o, p, out);
  } else {
    print_reports(reports, o, p, out);
  }
  return ExitCode::ok;
}

}  // namespace

Command traffic_command() {
  return {"traffic",
          "bytes, FLOPs, SRAM and time limits of each algorithm, side by side",
          {"flashsim traffic --n 4096 --d 128", "flashsim traffic --algorithm fa2 --pass both --causal",
           "flashsim traffic --sweep n=256:32768", "flashsim traffic --preset fa1-fig2"},
          "Every count comes from running the algorithm's schedule; formulas stand beside them only where "
          "they say so.",
          [](Options& options) -> Run {
            auto o = std::make_shared<TrafficOptions>();
            o->declare(options);
            return [o](Output& out) { return run_traffic(*o, out); };
          }};
}

}  // namespace flashsim::cli

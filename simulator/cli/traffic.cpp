// flashsim traffic: what each algorithm moves, computes and needs, counted by running its schedule.
#include <fmt/format.h>

#include <memory>

#include "simulator/cli/commands.h"
#include "simulator/cli/picture.h"
#include "simulator/cli/presets.h"
#include "simulator/cli/traffic_options.h"

namespace flashsim::cli {
namespace {

/// Requested bytes of each pass, as bars.
Chart chart_of(const std::vector<PassReport>& reports, const Problem& p) {
  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.id = "traffic";
  chart.title = "Requested bytes";
  chart.x_label = "algorithm";
  chart.y_label = "bytes";
  chart.source = "flashsim traffic; " + describe(p);
  chart.series = {{"read", {}, {}}, {"written", {}, {}}};
  for (const PassReport& r : reports) {
    chart.categories.push_back(r.algorithm + (r.pass == Pass::backward ? " backward" : ""));
    const auto total = r.total.total();
    chart.series[0].y.push_back(static_cast<double>(total.read.bytes));
    chart.series[1].y.push_back(static_cast<double>(total.bytes() - total.read.bytes));
  }
  return chart;
}

ExitCode run_traffic(const TrafficOptions& o, Output& out) {
  if ((!o.chart.empty() || !o.picture.empty()) && !o.preset.empty())
    throw UsageError(
        "--chart and --picture show counts of a problem or a sweep; leave out --preset or these");
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
  if (!o.chart.empty()) {
    write_chart(chart_of(reports, p), o.chart);
    out.note("wrote " + o.chart);
  }
  if (!o.picture.empty()) {
    if (wants_numbers(o.picture))
      write_numbers(csv_of(reports), o.picture);
    else
      write_text_picture(text_of(reports, o, p, Style(), picture_width), describe(p), o.picture);
    out.note("wrote " + o.picture);
  }
  if (out.json()) {
    print_reports_json(reports, o, p, out);
  } else {
    out.print(text_of(reports, o, p, out.style(), out.width()));
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

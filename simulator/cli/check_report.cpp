#include "simulator/cli/check_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/cli/json.h"
#include "simulator/cli/table.h"

namespace flashsim::cli {
namespace {

std::string share_text(double share) {
  return share < 0.001 ? fmt::format("{:.0e}", share) : fmt::format("{:.3f}", share);
}

/// One line an algorithm and pass, one column a dtype: the worst error as a share of its tolerance.
std::string summary(const std::vector<CheckRun>& runs, const Output& out) {
  std::vector<Dtype> dtypes;
  for (const CheckRun& run : runs)
    if (std::find(dtypes.begin(), dtypes.end(), run.problem.dtype) == dtypes.end())
      dtypes.push_back(run.problem.dtype);
  std::vector<Column> columns = {{"algorithm", Align::left}, {"pass", Align::left}, {"runs"}};
  for (const Dtype t : dtypes) columns.push_back({name_of(t)});
  columns.push_back({"worst result", Align::left, 1});
  Table table(columns);
  for (std::size_t i = 0; i < runs.size();) {
    const CheckRun& first = runs[i];
    std::vector<double> shares(dtypes.size(), -1);
    std::vector<bool> failed(dtypes.size(), false);
    const CheckRun* worst = &first;
    int n = 0;
    for (; i < runs.size() && runs[i].name() == first.name() && runs[i].backward == first.backward;
         ++i, ++n) {
      const auto d = static_cast<std::size_t>(std::find(dtypes.begin(), dtypes.end(), runs[i].problem.dtype) -
                                              dtypes.begin());
      shares[d] = std::max(shares[d], runs[i].worst().share());
      if (!runs[i].ok()) failed[d] = true;
      if (runs[i].worst().share() > worst->worst().share()) worst = &runs[i];
    }
    std::vector<std::string> cells = {first.name(), first.pass(), std::to_string(n)};
    for (std::size_t d = 0; d < dtypes.size(); ++d)
      cells.push_back(shares[d] < 0 ? "-" : failed[d] ? out.style().red("FAILED") : share_text(shares[d]));
    cells.push_back(fmt::format("{}, {}, {}", name_of(worst->worst().result), name_of(worst->problem.dtype),
                                mask_of(worst->problem)));
    table.row(std::move(cells));
  }
  return table.text(out.style(), out.width());
}

std::string every_result(const std::vector<CheckRun>& runs, const Output& out) {
  Table table({{"algorithm", Align::left},
               {"pass", Align::left, 3},
               {"dtype", Align::left},
               {"mask", Align::left, 2},
               {"blocks", Align::left},
               {"result", Align::left},
               {"error"},
               {"tolerance"},
               {"share"},
               {"where", Align::left, 4},
               {"got", Align::right, 5},
               {"expected", Align::right, 5}});
  for (const CheckRun& run : runs)
    for (const Comparison& c : run.results)
      table.row({run.name(), run.pass(), name_of(run.problem.dtype), mask_of(run.problem),
                 fmt::format("{}x{}", run.tiling.block_q, run.tiling.block_k), std::string(name_of(c.result)),
                 fmt::format("{:.2e}", c.error), fmt::format("{:.2e}", c.tolerance),
                 c.ok() ? share_text(c.share()) : out.style().red("FAILED"), place_of(c, run.problem),
                 fmt::format("{:.6g}", c.got), fmt::format("{:.6g}", c.expected)});
  return table.text(out.style(), out.width());
}

}  // namespace

void print_checks(const std::vector<CheckRun>& runs, const std::string& title, bool details,
                  const GivenFiles& given, Output& out) {
  const Style& style = out.style();
  out.print(style.bold(title) + "\n\n" + (details ? every_result(runs, out) : summary(runs, out)) + "\n");
  if (!details)
    out.print(
        wrapped(
            "Each number is the largest error of any element as a share of its tolerance, which follows from "
            "the dtype, the lengths and the largest logit; 1 would fail.",
            std::min(out.width(), 100)) +
        "\n");
  std::size_t failures = 0;
  for (const CheckRun& run : runs) {
    if (run.ok()) continue;
    if (++failures > 5) continue;
    const Comparison& c = run.worst();
    out.print(fmt::format(
        "\n{} {} {}, {}: {} is off by {:.3g} at {}: {:.9g} instead of {:.9g}; allowed {:.3g}\n  {}\n",
        style.red("FAILED"), run.name(), run.pass(), describe(run.problem), name_of(c.result), c.error,
        place_of(c, run.problem), c.got, c.expected, c.tolerance, command_of(run, given)));
  }
  if (failures > 5) out.print(fmt::format("... and {} more\n", failures - 5));
  out.print(failures == 0 ? style.green(fmt::format("{} runs, all within tolerance", runs.size())) + "\n"
                          : style.red(fmt::format("{} of {} runs failed", failures, runs.size())) + "\n");
}

void print_checks_json(const std::vector<CheckRun>& runs, const GivenFiles& given, Output& out) {
  Json document = json_document("check");
  std::size_t failures = 0;
  for (const CheckRun& run : runs) failures += run.ok() ? 0 : 1;
  document["runs_total"] = runs.size();
  document["runs_failed"] = failures;
  document["runs"] = Json::array();
  for (const CheckRun& run : runs) {
    Json j = {{"algorithm", run.name()},          {"pass", run.pass()}, {"problem", json_of(run.problem)},
              {"tiling", json_of(run.tiling)},    {"ok", run.ok()},     {"results", Json::array()},
              {"command", command_of(run, given)}};
    for (const Comparison& c : run.results)
      j["results"].push_back({{"result", name_of(c.result)},
                              {"error", c.error},  // JSON has no infinity: null
                              {"tolerance", c.tolerance},
                              {"ok", c.ok()},
                              {"index", c.at},
                              {"got", c.got},
                              {"expected", c.expected}});
    document["runs"].push_back(std::move(j));
  }
  print_json(out, document);
}

}  // namespace flashsim::cli

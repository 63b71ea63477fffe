// flashsim trace: who works when on one SM, and who waits.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "simulator/cli/candidate.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/picture.h"
#include "simulator/cli/problem_options.h"
#include "simulator/cli/table.h"
#include "simulator/cli/terminal.h"
#include "simulator/cli/trace_view.h"
#include "simulator/cli/traffic_options.h"

namespace flashsim::cli {
namespace {

using timeline::KernelTimeline;
using timeline::Sharing;
using timeline::Source;

enum class Format : std::uint8_t { text, chrome };

struct TraceOptions {
  ProblemOptions problem{
      {.heads_q = 16, .heads_kv = 16, .seqlen_q = 1024, .seqlen_k = 1024, .head_dim = 128}};
  TilingOptions tiling;
  std::string algorithm, schedule, kernel, picture;
  const Gpu* gpu = find_gpu("h100");
  bool backward = false, events = false;
  Sharing sharing = Sharing::turns;
  Source source = Source::l2;
  Format format = Format::text;
  std::optional<int> resident, width;
  std::int64_t blocks = 0;
  double latency = 0;
  std::optional<double> from, to;

  void declare(Options& options);
};

void TraceOptions::declare(Options& o) {
  o.heading("What to trace");
  o.text("-a,--algorithm", "NAME", algorithm, "flashsim algorithms lists them (default fa3)");
  o.text("--schedule", "FILE", schedule, "a schedule of your own, a C++ file, instead of an algorithm");
  o.flag("--backward", backward, "the backward pass");
  o.heading("On what");
  o.value("--gpu", "NAME", fmt::format("one of {} (default h100)", gpu_names()),
          [this](const std::string& text) { gpu = gpu_named(text); });
  o.choice("--sharing", sharing,
           std::vector<std::pair<std::string, Sharing>>{{"turns", Sharing::turns}, {"equal", Sharing::equal}},
           "warpgroups that want the same unit: one operation after another, so that they change places "
           "(ping-pong, default), or all at once, each at its share of the rate");
  o.choice("--bytes-from", source,
           std::vector<std::pair<std::string, Source>>{{"l2", Source::l2}, {"hbm", Source::hbm}},
           "whose rate loads and stores have, divided by the SMs (default l2)");
  o.value("--latency", "CLOCKS", "from a load's last byte to its use (default 0: data sheets give none)",
          [this](const std::string& text) { latency = parse_number("--latency", text, 0, 1e6); });
  o.integer("--resident", resident, 1, 32, "thread blocks at once on the SM (default: as many as fit)");
  o.integer("--blocks", blocks, 1, 100'000,
            "thread blocks to follow, of those the SM gets (default: the first that it holds at once)");
  o.heading("What to show");
  o.text("--kernel", "NAME", kernel, "which kernel as text or picture (default: the longest)");
  o.value("--from", "CLOCK", "first clock to show",
          [this](const std::string& text) { from = parse_number("--from", text, 0, 1e15); });
  o.value("--to", "CLOCK", "last clock to show",
          [this](const std::string& text) { to = parse_number("--to", text, 0, 1e15); });
  o.choice("--format", format,
           std::vector<std::pair<std::string, Format>>{{"text", Format::text}, {"chrome", Format::chrome}},
           "text, or a Chrome trace of all kernels that ui.perfetto.dev shows");
  o.value("--picture", "FILE",
          "not as text, but as .svg or .png (needs rsvg-convert), or every operation shown as .csv",
          [this](const std::string& text) {
            require_picture("--picture", text);
            picture = text;
          });
  o.flag("--events", events, "with --json: every operation too");
  o.integer("--width", width, 40, 1000, "columns of text (default: the terminal's)");
  problem.declare(o);
  tiling.declare(o);
}

Candidate candidate_of(const TraceOptions& o) {
  if (!o.schedule.empty() && !o.algorithm.empty())
    throw UsageError("--algorithm and --schedule both say what to trace; give one of them");
  Candidate c = o.schedule.empty()
                    ? Candidate{&algorithm_named(o.algorithm.empty() ? "fa3" : o.algorithm), nullptr}
                    : user_candidate(o.schedule);
  if (o.backward && !c.has(true))
    throw UsageError(
        c.user ? "a schedule of your own has a forward pass only"
               : fmt::format("{} has no backward pass of its own; choose fa1, fa2 or standard", c.name()));
  return c;
}

/// The rates of the SM, the thread blocks it gets, and how many of each kernel fit.
timeline::Request request_of(const TraceOptions& o, const Candidate& c, const Problem& p, const Tiling& t,
                             const Output& out) {
  timeline::Request r;
  r.rates = timeline::sm_rates(*o.gpu, p.dtype, o.source);
  if (!(r.rates.of(timeline::Unit::tensor_cores) > 0))
    throw UsageError(fmt::format("{} has no tensor cores for {}; choose another --dtype or --gpu",
                                 o.gpu->title, name_of(p.dtype)));
  r.sharing = o.sharing;
  r.latency = o.latency;
  r.sm_count = o.gpu->sm_count;
  r.most_blocks = o.blocks;
  const Pass pass = o.backward ? Pass::backward : Pass::forward;
  const Bind bind = [&](const Problem& few, const Tiling& tiling) {
    return c.program(o.backward, few, tiling);
  };
  for (const KernelReport& k :
       report_pass(c.name(), pass, bind, p, t, *o.gpu, o.gpu->shared_bytes_per_block).kernels) {
    const int fit = k.occupancy.blocks_per_sm;
    if (fit == 0 && !o.resident)
      out.note(fmt::format(
          "warning: a thread block of kernel \"{}\" does not fit an SM of {}; shown as if one did",
          k.traffic.name, o.gpu->title));
    r.resident.push_back(o.resident.value_or(std::max(1, fit)));
  }
  return r;
}

const KernelTimeline& shown_kernel(const TraceOptions& o, const std::vector<KernelTimeline>& kernels) {
  if (o.kernel.empty())
    return *std::max_element(
        kernels.begin(), kernels.end(),
        [](const KernelTimeline& a, const KernelTimeline& b) { return a.clocks < b.clocks; });
  std::vector<std::string> names;
  for (const KernelTimeline& k : kernels) names.push_back(k.name);
  return kernels[parse_choice("--kernel", o.kernel, names)];
}

TraceWindow window_of(const TraceOptions& o, const KernelTimeline& k) {
  const TraceWindow w{o.from.value_or(0), std::min(o.to.value_or(k.clocks), k.clocks)};
  if (!(w.from < w.to))
    throw UsageError(
        fmt::format("--from is {} and --to {}; expected --from to come first, within the {:.0f} clocks "
                    "that the kernel takes",
                    w.from, o.to.value_or(k.clocks), k.clocks));
  return w;
}

std::string kernels_text(const std::vector<KernelTimeline>& kernels, double clock_hz, const Style& style,
                         int width) {
  using timeline::Unit;
  std::vector<Column> columns = {{"kernel", Align::left}, {"blocks", Align::right, 2}, {"clocks"}, {"time"}};
  for (int u = 0; u < timeline::unit_count; ++u) columns.push_back({name_of(static_cast<Unit>(u))});
  Table table(columns);
  for (const KernelTimeline& k : kernels) {
    std::vector<std::string> cells = {k.name, fmt::format("{} of {}", k.blocks.size(), grouped(k.grid)),
                                      fmt::format("{:.0f}", k.clocks), seconds(k.clocks / clock_hz)};
    for (int u = 0; u < timeline::unit_count; ++u)
      cells.push_back(fmt::format("{:.0f} %", 100 * k.share(static_cast<Unit>(u))));
    table.row(cells);
  }
  return table.text(style, width);
}

ExitCode run_trace(const TraceOptions& o, Output& out) {
  if (out.json() && o.format == Format::chrome)
    throw UsageError("--json and --format chrome are two formats; give one of them");
  const Candidate c = candidate_of(o);
  const Problem p = o.problem.problem();
  require_supported(*c.algorithm, p);
  const Tiling t = o.tiling.tiling(*c.algorithm, p);
  require_countable(p, t);
  const timeline::Request request = request_of(o, c, p, t, out);
  std::vector<KernelTimeline> kernels;
  try {
    kernels = timeline::run(c.program(o.backward, p, t), p, request);
  } catch (const std::length_error& e) {
    throw UsageError(e.what());
  }
  if (std::all_of(kernels.begin(), kernels.end(), [](const KernelTimeline& k) { return k.events.empty(); }))
    throw ScheduleError("the schedule issues no operation that takes time, so there is nothing to trace");
  if (o.format == Format::chrome) {
    out.print(chrome_trace(kernels, request.rates.clock_hz).dump(1) + "\n");
    return ExitCode::ok;
  }
  if (out.json()) {
    Json document = json_document("trace");
    document["algorithm"] = c.name();
    document["pass"] = o.backward ? "backward" : "forward";
    document["problem"] = json_of(p);
    document["tiling"] = json_of(t);
    document["gpu"] = o.gpu->name;
    document["sharing"] = o.sharing == Sharing::turns ? "turns" : "equal";
    document["latency_clocks"] = o.latency;
    document["kernels"] = Json::array();
    for (const KernelTimeline& k : kernels)
      document["kernels"].push_back(json_of(k, request.rates.clock_hz, o.events));
    print_json(out, document);
    return ExitCode::ok;
  }
  const KernelTimeline& k = shown_kernel(o, kernels);
  const TraceWindow window = window_of(o, k);
  const std::string name =
      c.user ? std::filesystem::path(o.schedule).filename().string() + ", a schedule of your own"
             : std::string(c.algorithm->title);
  const TraceTitle title{
      fmt::format("{}, {}", name, o.backward ? "backward" : "forward"),
      fmt::format("{}; tiles {} x {}; {}", describe(p), t.block_q, t.block_k, o.gpu->title), "flashsim trace",
      request.rates.clock_hz};
  if (!o.picture.empty()) {
    if (wants_numbers(o.picture))
      write_numbers(csv_of(k, window), o.picture);
    else
      write_picture(svg(gantt_of(k, title, window)), o.picture);
    out.print(o.picture + "\n");
    return ExitCode::ok;
  }
  const int width = o.width.value_or(out.width());
  out.print(text_of(k, title, window, out.style(), width, locale_is_utf8()));
  if (kernels.size() > 1) out.print("\n" + kernels_text(kernels, request.rates.clock_hz, out.style(), width));
  return ExitCode::ok;
}

}  // namespace

Command trace_command() {
  return {
      "trace",
      "who works when on an SM: overlap, waits and bubbles of a schedule",
      {"flashsim trace", "flashsim trace --sharing equal --stages 1",
       "flashsim trace --algorithm fa2 --gpu a100-80 --resident 2",
       "flashsim trace --algorithm fa2 --backward --n 256 --heads 1 --format chrome"},
      "The schedule's operations run on a simple model of one SM: tensor cores, exp unit, CUDA cores and its "
      "share of the memory's bytes work at data-sheet rates; a warpgroup waits for each of its operations "
      "unless the schedule calls it asynchronous. Shared memory, registers and instructions are not in it.",
      [](Options& options) -> Run {
        auto o = std::make_shared<TraceOptions>();
        o->declare(options);
        return [o](Output& out) { return run_trace(*o, out); };
      }};
}

}  // namespace flashsim::cli

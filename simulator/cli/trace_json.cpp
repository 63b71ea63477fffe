// The timeline for other programs.
#include <fmt/format.h>

#include "simulator/cli/trace_view.h"
#include "simulator/report/svg.h"

namespace flashsim::cli {
namespace {

using timeline::Event;
using timeline::KernelTimeline;
using timeline::Unit;

constexpr int units_process = 1, first_block_process = 2;

Json named(const char* what, int process, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

Json json_of(const KernelTimeline& k, double clock_hz, bool with_events) {
  Json out = {{"name", k.name},
              {"thread_blocks", k.grid},
              {"resident", k.resident},
              {"clocks", k.clocks},
              {"seconds", k.clocks / clock_hz},
              {"serial_clocks", k.serial()},
              {"bound_clocks", k.bound()},
              {"units", Json::array()},
              {"blocks", Json::array()}};
  for (int u = 0; u < timeline::unit_count; ++u) {
    const auto unit = static_cast<Unit>(u);
    const std::vector<TraceWindow> idle = bubbles(k, unit);
    out["units"].push_back({{"name", name_of(unit)},
                            {"busy_clocks", k.busy[static_cast<std::size_t>(u)]},
                            {"share", k.share(unit)},
                            {"bubbles", idle.size()}});
  }
  for (const timeline::BlockRun& b : k.blocks)
    out["blocks"].push_back(
        {{"index", b.index}, {"row", b.row}, {"col", b.col}, {"begin", b.begin}, {"end", b.end}});
  if (!with_events) return out;
  out["events"] = Json::array();
  for (const Event& e : k.events)
    out["events"].push_back({{"block", k.blocks[static_cast<std::size_t>(e.block)].index},
                             {"role", e.role == 0 ? Json("producer") : Json(e.role)},
                             {"unit", name_of(e.unit)},
                             {"operation", k.texts[static_cast<std::size_t>(e.text)]},
                             {"begin", e.begin},
                             {"end", e.end}});
  return out;
}

std::string csv_of(const KernelTimeline& k, TraceWindow window) {
  std::string csv = csv_line({"block", "role", "unit", "operation", "begin", "end"});
  for (const Event& e : k.events)
    if (e.end > window.from && e.begin < window.to)
      csv += csv_line({std::to_string(k.blocks[static_cast<std::size_t>(e.block)].index),
                       e.role == 0 ? std::string("producer") : fmt::format("warpgroup {}", e.role),
                       name_of(e.unit), k.texts[static_cast<std::size_t>(e.text)], fmt::format("{}", e.begin),
                       fmt::format("{}", e.end)});
  return csv;
}

Json chrome_trace(const std::vector<KernelTimeline>& kernels, double clock_hz) {
  Json events = Json::array();
  events.push_back(named("process_name", units_process, 0, "units of the SM"));
  for (int u = 0; u < timeline::unit_count; ++u)
    events.push_back(named("thread_name", units_process, u, name_of(static_cast<Unit>(u))));
  double start = 0;  // of the kernel, in clocks
  std::size_t named_blocks = 0;
  int named_roles = 0;
  const double microseconds = 1e6 / clock_hz;
  for (const KernelTimeline& k : kernels) {
    // Thread block after thread block takes a process of its own, the same ones in every kernel.
    for (std::size_t b = 0; b < k.blocks.size(); ++b)
      for (int role = 0; role < k.roles; ++role) {
        if (b < named_blocks && role < named_roles) continue;
        const int process = first_block_process + static_cast<int>(b);
        if (role == 0)
          events.push_back(named("process_name", process, 0, fmt::format("thread block {} of the SM", b)));
        const std::string who = role == 0 ? "producer" : fmt::format("warpgroup {}", role);
        for (int u = 0; u < timeline::unit_count; ++u)
          events.push_back(named("thread_name", process, role * timeline::unit_count + u,
                                 who + ": " + name_of(static_cast<Unit>(u))));
      }
    named_blocks = std::max(named_blocks, k.blocks.size());
    named_roles = std::max(named_roles, k.roles);
    for (const Event& e : k.events) {
      const auto unit = static_cast<int>(e.unit);
      Json one = {{"name", k.texts[static_cast<std::size_t>(e.text)]},
                  {"cat", k.name},
                  {"ph", "X"},
                  {"ts", (start + e.begin) * microseconds},
                  {"dur", (e.end - e.begin) * microseconds},
                  {"pid", first_block_process + e.block},
                  {"tid", e.role * timeline::unit_count + unit},
                  {"args",
                   {{"clocks", e.end - e.begin},
                    {"thread block", k.blocks[static_cast<std::size_t>(e.block)].index}}}};
      events.push_back(std::move(one));
    }
    for (int u = 0; u < timeline::unit_count; ++u) {
      double until = 0;  // what is no bubble is work
      const auto work = [&](double from, double to) {
        if (to > from)
          events.push_back({{"name", k.name},
                            {"cat", "busy"},
                            {"ph", "X"},
                            {"ts", (start + from) * microseconds},
                            {"dur", (to - from) * microseconds},
                            {"pid", units_process},
                            {"tid", u}});
      };
      for (const TraceWindow& w : bubbles(k, static_cast<Unit>(u))) {
        work(until, w.from);
        until = w.to;
      }
      work(until, k.clocks);
    }
    start += k.clocks;
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}};
}

}  // namespace flashsim::cli

// From events to lanes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulator/cli/trace_view.h"

namespace flashsim::cli {
namespace {

using timeline::Event;
using timeline::KernelTimeline;
using timeline::Unit;

/// What a warpgroup's lane holds: the CUDA cores and the exp unit work on its rows in turn.
enum class LaneKind : std::uint8_t { copies, products, rows, count };
constexpr std::array<const char*, static_cast<int>(LaneKind::count)> lane_names = {"copies", "products",
                                                                                   "rows"};

LaneKind lane_of(Unit u) {
  return u == Unit::copies ? LaneKind::copies : u == Unit::tensor_cores ? LaneKind::products : LaneKind::rows;
}

/// S, O, V ...; gradients in lower case: q for dQ.
char letter_of(Tensor x) {
  const std::string_view name = name_of(x);
  return name.size() > 1 && name[0] == 'd' && name[1] >= 'A' && name[1] <= 'Z'
             ? static_cast<char>(name[1] - 'A' + 'a')
             : name[0];
}

char mark_of(const Event& e) {
  if (e.unit == Unit::copies || e.unit == Unit::tensor_cores) return letter_of(e.tensor);
  if (e.unit == Unit::exponentials) return 'e';
  switch (e.op) {
    case Op::exp:
    case Op::exp_difference: return 'e';
    case Op::row_max:
    case Op::max:
    case Op::abs_max: return 'm';
    case Op::row_sum:
    case Op::add_row_sum:
    case Op::row_dot:
    case Op::add: return 's';
    case Op::scale_rows:
    case Op::divide_rows:
    case Op::scale_all:
    case Op::multiply: return 'r';
    default: return 'o';
  }
}

int kind_of(const Event& e) {
  switch (e.unit) {
    case Unit::tensor_cores: return e.op == Op::matmul_nt ? 0 : 1;
    case Unit::exponentials: return 2;
    case Unit::cuda_cores: return 3;
    default: return e.op == Op::load ? 4 : 5;
  }
}

GanttBar bar_of(const KernelTimeline& k, const Event& e) {
  return {e.begin, e.end, mark_of(e), kind_of(e), k.texts[static_cast<std::size_t>(e.text)]};
}

/// When the unit works for anybody.
std::vector<TraceWindow> busy_times(const KernelTimeline& k, Unit unit) {
  std::vector<TraceWindow> all;
  for (const Event& e : k.events)
    if (e.unit == unit) all.push_back({e.begin, e.end});
  std::sort(all.begin(), all.end(),
            [](const TraceWindow& a, const TraceWindow& b) { return a.from < b.from; });
  std::vector<TraceWindow> merged;
  for (const TraceWindow& w : all) {
    if (!merged.empty() && w.from <= merged.back().to + 1e-6) {
      merged.back().to = std::max(merged.back().to, w.to);
    } else {
      merged.push_back(w);
    }
  }
  return merged;
}

std::string name_of_role(const KernelTimeline& k, int role) {
  if (k.has_producer && role == 0) return "producer";
  return k.roles > 2 ? fmt::format("warpgroup {}", role) : "";
}

}  // namespace

std::vector<TraceWindow> bubbles(const KernelTimeline& k, Unit unit) {
  std::vector<TraceWindow> idle;
  double until = 0;
  for (const TraceWindow& w : busy_times(k, unit)) {
    if (w.from > until + 1e-6) idle.push_back({until, w.from});
    until = w.to;
  }
  if (k.clocks > until + 1e-6) idle.push_back({until, k.clocks});
  return idle;
}

Gantt gantt_of(const KernelTimeline& k, const TraceTitle& title, TraceWindow window) {
  Gantt g;
  g.title = fmt::format("{}, kernel \"{}\"", title.algorithm, k.name);
  g.subtitle = title.about;
  g.unit = "clocks";
  g.from = window.from;
  g.to = window.to;
  g.kinds = {"products Q K^T, dO V^T", "products that add up", "exp unit", "CUDA cores", "loads", "stores"};
  g.source = title.source;
  for (std::size_t b = 0; b < k.blocks.size(); ++b) {
    for (int role = 0; role < k.roles; ++role) {
      std::string group = fmt::format("thread block {}", k.blocks[b].index);
      if (const std::string who = name_of_role(k, role); !who.empty()) group += ", " + who;
      for (int kind = 0; kind < static_cast<int>(LaneKind::count); ++kind) {
        GanttLane lane{group, lane_names[static_cast<std::size_t>(kind)], {}, false};
        for (const Event& e : k.events)
          if (e.block == static_cast<int>(b) && e.role == role && static_cast<int>(lane_of(e.unit)) == kind)
            lane.bars.push_back(bar_of(k, e));
        if (!lane.bars.empty()) g.lanes.push_back(std::move(lane));
      }
    }
  }
  const std::array<int, timeline::unit_count> colors = {0, 2, 3, 4};
  for (int u = 0; u < timeline::unit_count; ++u) {
    GanttLane lane{"the SM", name_of(static_cast<Unit>(u)), {}, true};
    for (const TraceWindow& w : busy_times(k, static_cast<Unit>(u)))
      lane.bars.push_back({w.from, w.to, '#', colors[static_cast<std::size_t>(u)], lane.label});
    g.lanes.push_back(std::move(lane));
  }
  return g;
}

}  // namespace flashsim::cli

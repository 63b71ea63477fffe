// A timeline as people and other programs see it: text, a chart, JSON, a Chrome trace.
#pragma once

#include <string>
#include <vector>

#include "simulator/cli/json.h"
#include "simulator/cli/style.h"
#include "simulator/executors/timeline/timeline.h"
#include "simulator/report/gantt.h"

namespace flashsim::cli {

/// What a timeline does not say about itself.
struct TraceTitle {
  std::string algorithm;  ///< with its paper, and the pass
  std::string about;      ///< problem, tiles, GPU
  std::string source;     ///< the command
  double clock_hz = 0;
};

/// Clocks that are shown.
struct TraceWindow {
  double from = 0, to = 0;
};

/// Lanes for each warpgroup (its loads, its products, its work on rows) and one for each unit of the SM.
Gantt gantt_of(const timeline::KernelTimeline& k, const TraceTitle& title, TraceWindow window);

/// Times at which the unit has nothing to do while the kernel runs, in order.
std::vector<TraceWindow> bubbles(const timeline::KernelTimeline& k, timeline::Unit unit);

/// The chart in lines of at most `width` columns, and what it says in words.
std::string text_of(const timeline::KernelTimeline& k, const TraceTitle& title, TraceWindow window,
                    const Style& style, int width, bool unicode);

Json json_of(const timeline::KernelTimeline& k, double clock_hz, bool with_events);

/// The operations of a window as CSV: thread block, who, unit, operation, first and last clock.
std::string csv_of(const timeline::KernelTimeline& k, TraceWindow window);

/// {"traceEvents": [...]} as chrome://tracing and ui.perfetto.dev read it: complete events in microseconds,
/// one process for the units and one for each thread block; kernels one after another.
Json chrome_trace(const std::vector<timeline::KernelTimeline>& kernels, double clock_hz);

}  // namespace flashsim::cli

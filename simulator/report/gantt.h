// A Gantt chart as data: who does what when.
#pragma once

#include <string>
#include <vector>

namespace flashsim {

struct GanttBar {
  double begin = 0, end = 0;
  char mark = ' ';  ///< what it looks like in text
  int kind = 0;     ///< index into Gantt::kinds, which gives its colour
  std::string text;
};

struct GanttLane {
  std::string group, label;    ///< lanes of one group stand together; its name stands above them
  std::vector<GanttBar> bars;  ///< in order, without overlap
  bool summary = false;        ///< drawn as a share of each column, not bar by bar
};

struct Gantt {
  std::string title, subtitle;
  std::string unit;  ///< of time
  double from = 0, to = 0;
  std::vector<std::string> kinds;
  std::vector<GanttLane> lanes;
  std::string source;  ///< the command that made it
};

/// How much of from ... to the lane's bars cover, between 0 and 1.
double covered(const GanttLane& lane, double from, double to);
/// The bar that covers most of from ... to; null where none does.
const GanttBar* longest_bar(const GanttLane& lane, double from, double to);

/// A round step for ticks, so that there are at most `most` of them.
double tick_step(double from, double to, int most);

/// A stand-alone SVG document, 960 units wide. Bars too narrow to be seen are left out.
std::string svg(const Gantt& chart);

}  // namespace flashsim

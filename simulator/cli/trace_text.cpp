// The timeline as text.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "simulator/cli/step_frame.h"
#include "simulator/cli/trace_view.h"

namespace flashsim::cli {
namespace {

using timeline::KernelTimeline;
using timeline::Unit;

constexpr int label_width = 15;

/// How much of a column a unit works, as a sign.
std::string level(double share, bool unicode) {
  if (unicode) {
    constexpr std::array<const char*, 9> signs = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    return signs[static_cast<std::size_t>(std::clamp(std::lround(share * 8), 0L, 8L))];
  }
  constexpr std::string_view signs = ".123456789#";
  return std::string(1, signs[static_cast<std::size_t>(std::clamp(std::lround(share * 10), 0L, 10L))]);
}

std::string colored(const Style& style, int kind, const std::string& text) {
  constexpr std::array<const char*, 6> codes = {"1;34", "1;35", "32", "36", "33", "2;33"};
  return style.in(codes[static_cast<std::size_t>(kind)], text);
}

std::string padded_label(const std::string& text) {
  return text + std::string(static_cast<std::size_t>(std::max(0, label_width - display_width(text))), ' ');
}

class Columns {
 public:
  Columns(const Gantt& g, int width) : from_(g.from), count_(std::max(10, width - label_width - 7)) {
    clocks_ = std::max(g.to - g.from, 1e-9) / count_;
  }
  int count() const { return count_; }
  double clocks() const { return clocks_; }
  double begin(int c) const { return from_ + c * clocks_; }

 private:
  double from_, clocks_ = 1;
  int count_;
};

/// "0      2,000      4,000": each number begins in its column.
std::string axis(const Gantt& g, const Columns& columns) {
  std::string line(static_cast<std::size_t>(columns.count()), ' ');
  const double step = tick_step(g.from, g.to, columns.count() / 10);
  for (double t = std::ceil(g.from / step) * step; t < g.to; t += step) {
    const auto at = static_cast<std::size_t>((t - g.from) / columns.clocks());
    const std::string text = grouped(std::llround(t));
    if (at + text.size() <= line.size()) line.replace(at, text.size(), text);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return padded_label("clocks") + line;
}

/// One sign a column: what takes most of it, or a point where the lane stands still for more than half of it.
std::string signs_of(const GanttLane& lane, const Columns& columns, const Style& style, bool unicode) {
  std::string text;
  for (int c = 0; c < columns.count(); ++c) {
    const double begin = columns.begin(c), end = columns.begin(c + 1), share = covered(lane, begin, end);
    const GanttBar* bar = longest_bar(lane, begin, end);
    if (lane.summary)
      text += share > 0 ? colored(style, bar->kind, level(share, unicode)) : style.dim(level(0, unicode));
    else if (bar == nullptr || share < 0.5)
      text += style.dim(unicode ? "·" : ".");
    else
      text += colored(style, bar->kind, std::string(1, bar->mark));
  }
  return text;
}

/// What the letters stand for, as far as they occur.
std::string letters(const Gantt& g, bool unicode) {
  std::map<char, std::string> copies, products, rows;
  for (const GanttLane& lane : g.lanes) {
    if (lane.summary) continue;
    auto& meanings = lane.label == "products" ? products : lane.label == "copies" ? copies : rows;
    for (const GanttBar& b : lane.bars) meanings.try_emplace(b.mark, b.text);
  }
  std::string text;
  for (const auto& [mark, meaning] : products)  // the lane says when it runs, so "start ..." needs no telling
    text += fmt::format("{} {};  ", mark,
                        with_signs(meaning.rfind("start ", 0) == 0 ? meaning.substr(6) : meaning, unicode));
  static const std::map<char, const char*> row_meanings = {
      {'e', "exp"}, {'m', "maximum"}, {'s', "sums"}, {'r', "rescale"}, {'o', "other"}};
  for (const auto& [mark, meaning] : rows) text += fmt::format("{} {};  ", mark, row_meanings.at(mark));
  if (!copies.empty()) {
    std::string tensors;
    for (const auto& [mark, meaning] : copies)
      tensors += fmt::format("{}{}", tensors.empty() ? "" : " ", mark);
    text += fmt::format("{} loads and stores;  ", tensors);
  }
  return text + (unicode ? "· waits" : ". waits");
}

std::string in_words(const KernelTimeline& k, const TraceTitle& title) {
  const Unit unit = k.busiest();
  std::string text = fmt::format(
      "{} clocks, {}. The busiest unit, {}, works for {} of them ({:.0f} %): full overlap would take no "
      "less. One "
      "operation after another would take {}.",
      grouped(std::llround(k.clocks)), seconds(k.clocks / title.clock_hz), name_of(unit),
      grouped(std::llround(k.bound())), 100 * k.share(unit), grouped(std::llround(k.serial())));
  if (k.busy[static_cast<int>(Unit::tensor_cores)] > 0) {
    const std::vector<TraceWindow> idle = bubbles(k, Unit::tensor_cores);
    double sum = 0;
    TraceWindow longest;
    for (const TraceWindow& w : idle) {
      sum += w.to - w.from;
      if (w.to - w.from > longest.to - longest.from) longest = w;
    }
    text +=
        idle.empty()
            ? " The tensor cores never stand still."
            : fmt::format(" The tensor cores stand still for {} clocks in {} place{}, longest from {} to {}.",
                          grouped(std::llround(sum)), idle.size(), idle.size() == 1 ? "" : "s",
                          grouped(std::llround(longest.from)), grouped(std::llround(longest.to)));
  }
  return text;
}

}  // namespace

std::string text_of(const KernelTimeline& k, const TraceTitle& title, TraceWindow window, const Style& style,
                    int width, bool unicode) {
  const Gantt g = gantt_of(k, title, window);
  const Columns columns(g, width);
  std::string text =
      style.bold(wrapped(title.algorithm, width)) + "\n" + wrapped(title.about, width) + "\n\n";
  text += wrapped(fmt::format(
                      "kernel \"{}\": {} thread block{}; {} at once on this SM, {} shown; a column is {:.0f} "
                      "clocks",
                      k.name, grouped(k.grid), k.grid == 1 ? "" : "s", k.resident, k.blocks.size(),
                      columns.clocks()),
                  width) +
          "\n\n";
  text += style.dim(axis(g, columns)) + "\n";
  std::string group;
  for (const GanttLane& lane : g.lanes) {
    if (lane.group != group) text += style.bold(group = lane.group) + "\n";
    text += padded_label("  " + lane.label) + signs_of(lane, columns, style, unicode);
    if (lane.summary) text += fmt::format(" {:>3.0f} %", 100 * covered(lane, g.from, g.to));
    text += "\n";
  }
  return text + "\n" + wrapped(letters(g, unicode), std::min(width, 100)) + "\n\n" +
         wrapped(in_words(k, title), std::min(width, 100)) + "\n";
}

}  // namespace flashsim::cli

#include "simulator/report/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulator/report/svg_parts.h"
#include "simulator/report/units.h"

namespace flashsim {
namespace {

using namespace svg_parts;

double overlap(const GanttBar& b, double from, double to) {
  return std::max(0.0, std::min(b.end, to) - std::max(b.begin, from));
}

/// The first bar that ends after `from`.
auto first_after(const GanttLane& lane, double from) {
  return std::lower_bound(lane.bars.begin(), lane.bars.end(), from,
                          [](const GanttBar& b, double t) { return b.end <= t; });
}

constexpr double page = 960, label_width = 170, margin = 24, bar_height = 18, lane_height = 24;

}  // namespace

double covered(const GanttLane& lane, double from, double to) {
  double sum = 0;
  for (auto b = first_after(lane, from); b != lane.bars.end() && b->begin < to; ++b)
    sum += overlap(*b, from, to);
  return to > from ? std::min(1.0, sum / (to - from)) : 0;
}

const GanttBar* longest_bar(const GanttLane& lane, double from, double to) {
  const GanttBar* longest = nullptr;
  for (auto b = first_after(lane, from); b != lane.bars.end() && b->begin < to; ++b)
    if (longest == nullptr || overlap(*b, from, to) > overlap(*longest, from, to)) longest = &*b;
  return longest;
}

double tick_step(double from, double to, int most) {
  const double raw = std::max(to - from, 1e-9) / std::max(1, most);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (power * factor >= raw) return power * factor;
  return power * 10;
}

std::string svg(const Gantt& chart) {
  const double right = page - margin, span = std::max(chart.to - chart.from, 1e-9);
  const auto x_of = [&](double t) { return label_width + (t - chart.from) / span * (right - label_width); };
  std::string body = text_at(margin, 28, chart.title, "start", " font-size=\"16\" font-weight=\"bold\"") +
                     text_at(margin, 46, chart.subtitle, "start", " font-size=\"11\" fill=\"#555555\"");
  double x = margin;
  for (std::size_t k = 0; k < chart.kinds.size(); ++k) {
    body += fmt::format("<rect x=\"{:.1f}\" y=\"56\" width=\"14\" height=\"14\" fill=\"{}\"/>\n", x,
                        colors[k % colors.size()]);
    body += text_at(x + 20, 68, chart.kinds[k], "start", " font-size=\"11\"");
    x += 40 + 6.5 * static_cast<double>(chart.kinds[k].size());
  }
  double y = 84;
  const double top = y;
  std::string group, bars;
  for (const GanttLane& lane : chart.lanes) {
    if (lane.group != group) {
      group = lane.group;
      y += 18;
      bars += text_at(margin, y - 4, group, "start", " font-size=\"11\" font-weight=\"bold\"");
    }
    bars += text_at(label_width - 8, y + 14, lane.label, "end", " font-size=\"11\"");
    bars += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"#f2f2f2\"/>\n",
                        label_width, y, right - label_width, bar_height);
    for (auto b = first_after(lane, chart.from); b != lane.bars.end() && b->begin < chart.to; ++b) {
      const double begin = x_of(std::max(b->begin, chart.from)), end = x_of(std::min(b->end, chart.to));
      if (end - begin < 0.05) continue;
      bars += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
          "fill=\"{}\"><title>{}</title></rect>\n",
          begin, y, std::max(0.2, end - begin - 0.4), bar_height,
          colors[static_cast<std::size_t>(b->kind) % colors.size()], escaped(b->text));
    }
    y += lane_height;
  }
  const double step = tick_step(chart.from, chart.to, 8);
  for (double t = std::ceil(chart.from / step) * step; t <= chart.to * (1 + 1e-12); t += step) {
    body += line(x_of(t), top, x_of(t), y + 4, "#cccccc");
    body += text_at(x_of(t), y + 18, grouped(static_cast<std::int64_t>(std::llround(t))), "middle",
                    " font-size=\"11\"");
  }
  body += bars + text_at(right, y + 34, chart.unit, "end", " font-size=\"11\"") +
          text_at(margin, y + 34, chart.source, "start", " font-size=\"9\" fill=\"#777777\"");
  return document(page, y + 46, body);
}

}  // namespace flashsim

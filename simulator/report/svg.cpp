#include "simulator/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "simulator/report/svg_parts.h"
#include "simulator/report/units.h"

namespace flashsim {
namespace {

using namespace svg_parts;

constexpr double width = 760, height = 440, left = 92, right = 24, top = 84, bottom = 84;
/// From values to a place on the page.
struct Axis {
  double from = 0, to = 1, begin = 0, end = 1;
  bool log = false;
  std::vector<double> ticks;

  double at(double v) const {
    const double share = log ? std::log(v / from) / std::log(to / from) : (v - from) / (to - from);
    return begin + share * (end - begin);
  }
  bool shows(double v) const { return std::isfinite(v) && (!log || v > 0); }
};

/// Steps of 1, 2 or 5 times a power of ten, about five of them.
void linear_ticks(Axis& a, double most) {
  const double raw = std::max(most, 1e-300) / 5, power = std::pow(10, std::floor(std::log10(raw)));
  const double step = power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : raw / power > 1 ? 2 : 1);
  a.from = 0;
  a.to = std::ceil(most / step) * step;
  for (int i = 0; i * step <= a.to * (1 + 1e-9); ++i) a.ticks.push_back(i * step);
}

void log_ticks(Axis& a, double least, double most) {
  const double low = std::floor(std::log10(least)), high = std::max(low + 1, std::ceil(std::log10(most)));
  a.log = true;
  a.from = std::pow(10, low);
  a.to = std::pow(10, high);
  const int every = std::max(1, static_cast<int>(high - low) / 8);
  for (int i = static_cast<int>(low); i <= static_cast<int>(high); i += every)
    a.ticks.push_back(std::pow(10, i));
}

Axis y_axis(const Chart& chart) {
  Axis a;
  a.begin = height - bottom;
  a.end = top;
  a.log = chart.log_y;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Series& s : chart.series)
    for (const double y : s.y)
      if (a.shows(y)) least = std::min(least, y), most = std::max(most, y);
  if (!(most > 0)) least = most = 1;
  if (chart.log_y) {
    log_ticks(a, least, most);
  } else {
    linear_ticks(a, most);
  }
  return a;
}

Axis x_axis(const Chart& chart) {
  Axis a;
  a.begin = left;
  a.end = width - right;
  a.log = chart.log_x;
  std::set<double> all;
  for (const Series& s : chart.series)
    for (const double x : s.x)
      if (a.shows(x)) all.insert(x);
  if (all.empty()) all = {1, 2};
  const double least = *all.begin(), most = *all.rbegin();
  if (chart.log_x) {
    a.from = least / 1.1;
    a.to = most * 1.1;
  } else {
    const double room = std::max(1e-12, (most - least) * 0.03);
    a.from = least - room;
    a.to = most + room;
  }
  // What was run is what is labelled, or every other where there is no room.
  const std::size_t every = (all.size() + 11) / 12;
  std::size_t i = 0;
  for (const double x : all)
    if (i++ % every == 0) a.ticks.push_back(x);
  return a;
}

std::string number_label(double v, const std::string& axis_label) {
  if (axis_label == "bytes") return decimal_bytes(v);
  if (std::abs(v) >= 100000) return count(v);
  if (v != 0 && std::abs(v) < 0.01) return fmt::format("{:.0e}", v);
  return v == std::floor(v) ? grouped(static_cast<std::int64_t>(v)) : fmt::format("{:.3g}", v);
}

/// Words gathered into lines of about `columns`.
std::vector<std::string> lines_of(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (lines.empty() || lines.back().size() + 1 + word.size() > columns) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
    begin = end + 1;
  }
  return lines;
}

std::string frame(const Chart& chart, const Axis& y) {
  std::string body = text_at(left, 26, chart.title, "start", " font-size=\"16\" font-weight=\"bold\"");
  for (const double t : y.ticks) {
    body += line(left, y.at(t), width - right, y.at(t), "#dddddd");
    body += text_at(left - 8, y.at(t) + 4, number_label(t, chart.y_label), "end");
  }
  body +=
      fmt::format("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                  (top + height - bottom) / 2, escaped(chart.y_label));
  body += text_at((left + width - right) / 2, height - 30, chart.x_label, "middle");
  body += text_at(width - right, height - 8, chart.source, "end", " font-size=\"9\" fill=\"#777777\"");
  double x = left;
  if (chart.series.size() > 1)
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
      body += fmt::format("<rect x=\"{:.1f}\" y=\"44\" width=\"14\" height=\"14\" fill=\"{}\"/>\n", x,
                          colors[i % colors.size()]);
      body += text_at(x + 20, 56, chart.series[i].name, "start");
      x += 44 + 7.0 * static_cast<double>(chart.series[i].name.size());
    }
  return body + line(left, height - bottom, width - right, height - bottom, "#222222");
}

std::string lines_body(const Chart& chart, const Axis& y) {
  const Axis x = x_axis(chart);
  std::string body;
  for (const double t : x.ticks) {
    body += line(x.at(t), height - bottom, x.at(t), height - bottom + 5, "#222222");
    body += text_at(x.at(t), height - bottom + 20, number_label(t, chart.x_label), "middle");
  }
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const Series& s = chart.series[i];
    const char* color = colors[i % colors.size()];
    std::string points, marks;
    for (std::size_t k = 0; k < s.x.size(); ++k) {
      if (!x.shows(s.x[k]) || !y.shows(s.y[k])) continue;
      points += fmt::format("{:.1f},{:.1f} ", x.at(s.x[k]), y.at(s.y[k]));
      marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x.at(s.x[k]),
                           y.at(s.y[k]), color);
    }
    body += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}",
                        points, color, marks);
  }
  return body;
}

/// A value with so many digits, for which there is room above its bar.
std::string bar_label(double value, const std::string& axis_label, int digits) {
  if (axis_label != "bytes" || value <= 0) return fmt::format("{:.{}g}", value, digits);
  const double last_digit = std::pow(10, std::floor(std::log10(value)) + 1 - digits);
  std::string text = decimal_bytes(std::round(value / last_digit) * last_digit);
  const std::size_t unit = text.find(' ');
  if (text.find('.') < unit) {  // zeros say nothing here
    const std::size_t last = text.find_last_not_of('0', unit - 1);
    text.erase(text[last] == '.' ? last : last + 1, unit - last - (text[last] == '.' ? 0 : 1));
  }
  return text;
}

std::string bars_body(const Chart& chart, const Axis& y) {
  std::string body;
  const double room =
      (width - right - left) / static_cast<double>(std::max<std::size_t>(1, chart.categories.size()));
  const double bar = room * 0.7 / static_cast<double>(std::max<std::size_t>(1, chart.series.size()));
  for (std::size_t c = 0; c < chart.categories.size(); ++c) {
    const double begin = left + room * (static_cast<double>(c) + 0.15);
    double label_y = height - bottom + 17;
    for (const std::string& l : lines_of(chart.categories[c], static_cast<std::size_t>(room / 7))) {
      body += text_at(begin + room * 0.35, label_y, l, "middle", " font-size=\"11\"");
      label_y += 12;
    }
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
      const double value = chart.series[i].y[c];
      if (!y.shows(value)) continue;
      const double x = begin + bar * static_cast<double>(i), end = y.at(value);
      body +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x,
                      end, bar * 0.94, std::max(0.0, height - bottom - end), colors[i % colors.size()]);
      body += text_at(x + bar * 0.47, end - 4, bar_label(value, chart.y_label, bar < 40 ? 2 : 3), "middle",
                      bar < 40 ? " font-size=\"9\"" : " font-size=\"11\"");
    }
  }
  return body;
}

}  // namespace

std::string svg(const Chart& chart) {
  const Axis y = y_axis(chart);
  const bool bars = chart.kind == Chart::Kind::bars;
  return document(width, height, frame(chart, y) + (bars ? bars_body(chart, y) : lines_body(chart, y)));
}

std::string svg_of_text(std::string_view text, std::string_view title) {
  constexpr double column = 7.83, row = 17;
  std::string body = text_at(16, 26, title, "start", " font-weight=\"bold\"");
  std::size_t widest = 40;
  double y = 52;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find('\n', i), text.size());
    std::string shown;
    std::size_t columns = 0;
    for (; i < end; ++i) {
      if (text[i] == '\x1b') {
        i = std::min(text.find('m', i), end - 1);
        continue;
      }
      columns += (static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U ? 1 : 0;
      shown += text[i];
    }
    i = end + 1;
    widest = std::max(widest, columns);
    body += text_at(16, y, shown, "start", " xml:space=\"preserve\" font-family=\"monospace\"");
    y += row;
  }
  return document(32 + column * static_cast<double>(widest), y + 4, body);
}

}  // namespace flashsim

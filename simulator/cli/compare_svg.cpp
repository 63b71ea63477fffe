// The bar chart of `flashsim compare --chart`: for each case its requested and DRAM bytes, simulated above
// measured, on a logarithmic axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulator/cli/compare_report.h"
#include "simulator/cli/style.h"

namespace flashsim::cli {
namespace {

constexpr int left = 330, plot = 520, row = 14, gap = 12, top = 50;

struct Bar {
  std::string label;
  double simulated = 0, measured = 0;
};

std::vector<Bar> bars_of(const ByteComparison& c) {
  const L2Traffic t = c.total();
  const Observed& o = c.record.observed;
  return {{"requested", t.requested_read + t.requested_written, o.requested_read + o.requested_written},
          {"DRAM", t.dram(), o.dram()}};
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

}  // namespace

std::string svg(const CompareReport& report) {
  double least = 1e300, most = 0;
  for (const ByteComparison& c : report.comparisons)
    for (const Bar& b : bars_of(c))
      for (const double v : {b.simulated, b.measured})
        if (std::isfinite(v) && v > 0) least = std::min(least, v), most = std::max(most, v);
  if (most <= 0) least = 1, most = 10;
  const double from = std::floor(std::log10(least)) - 0.2, to = std::ceil(std::log10(most));
  const auto width = [&](double v) {
    return std::isfinite(v) && v > 0 ? std::max(0.0, (std::log10(v) - from) / (to - from) * plot) : 0.0;
  };
  std::string body;
  int y = top;
  for (const ByteComparison& c : report.comparisons) {
    body += fmt::format("<text x=\"10\" y=\"{}\" class=\"case\">{}</text>\n", y + 11,
                        escaped(describe(c.record.what)));
    y += row + 4;
    for (const Bar& b : bars_of(c)) {
      body +=
          fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 8, y + 17, b.label);
      for (const auto& [value, kind] : {std::pair{b.simulated, "simulated"}, {b.measured, "measured"}}) {
        body += fmt::format(
            "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" class=\"{}\"/><text x=\"{:.1f}\" "
            "y=\"{}\">{}</text>\n",
            left, y, width(value), row - 3, kind, left + width(value) + 5, y + 10,
            std::isfinite(value) ? decimal_bytes(value) : "no counter");
        y += row;
      }
    }
    y += gap;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
             "font-size=\"11\">\n"
             "<style>.simulated{{fill:#4477aa}}.measured{{fill:#ee9944}}.case{{font-weight:bold}}"
             "svg{{background:#fff}}</style>\n"
             "<text x=\"10\" y=\"18\" font-size=\"14\">Bytes, simulated and measured (logarithmic)</text>\n"
             "<text x=\"10\" y=\"36\">{}</text>\n"
             "<rect x=\"{}\" y=\"10\" width=\"10\" height=\"10\" class=\"simulated\"/><text x=\"{}\" "
             "y=\"19\">simulated</text>\n"
             "<rect x=\"{}\" y=\"10\" width=\"10\" height=\"10\" class=\"measured\"/><text x=\"{}\" "
             "y=\"19\">measured</text>\n",
             left + plot + 90, y + 10, escaped(provenance(report)), left + 250, left + 265, left + 340,
             left + 355) +
         body + "</svg>\n";
}

}  // namespace flashsim::cli

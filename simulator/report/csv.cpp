#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "simulator/report/svg.h"

namespace flashsim {
namespace {

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string number(double x) { return std::isfinite(x) ? fmt::format("{:.10g}", x) : ""; }

}  // namespace

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& f : fields) line += (line.empty() ? "" : ",") + field(f);
  return line + "\n";
}

std::string csv(const Chart& chart) {
  std::vector<std::string> heading = {chart.x_label};
  for (const Series& s : chart.series)
    heading.push_back(s.name + (chart.y_label.empty() ? "" : " (" + chart.y_label + ")"));
  std::string text = csv_line(heading);
  if (chart.kind == Chart::Kind::bars) {
    for (std::size_t i = 0; i < chart.categories.size(); ++i) {
      std::vector<std::string> row = {chart.categories[i]};
      for (const Series& s : chart.series) row.push_back(number(s.y.at(i)));
      text += csv_line(row);
    }
    return text;
  }
  std::set<double> all;
  for (const Series& s : chart.series) all.insert(s.x.begin(), s.x.end());
  for (const double x : all) {
    std::vector<std::string> row = {number(x)};
    for (const Series& s : chart.series) {
      const auto at = std::find(s.x.begin(), s.x.end(), x);
      row.push_back(at == s.x.end() ? "" : number(s.y[static_cast<std::size_t>(at - s.x.begin())]));
    }
    text += csv_line(row);
  }
  return text;
}

}  // namespace flashsim

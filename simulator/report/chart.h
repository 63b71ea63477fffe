// A chart as data: what a lesson or a sweep shows, before it becomes a picture or a file of numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flashsim {

/// One line of a line chart, or one colour of a bar chart.
struct Series {
  std::string name;
  std::vector<double> x;  ///< line charts only; as long as y
  std::vector<double> y;  ///< NaN leaves a gap
};

struct Chart {
  enum class Kind : std::uint8_t { lines, bars } kind = Kind::lines;
  std::string id;  ///< a file's name, e.g. "traffic_over_n"
  std::string title;
  std::string x_label, y_label;         ///< with their units
  bool log_x = false, log_y = false;    ///< base 2 and base 10; values must be positive
  std::vector<std::string> categories;  ///< bar charts: what stands below each group of bars
  std::vector<Series> series;
  std::string source;  ///< the command or record that the numbers come from
};

}  // namespace flashsim

// Pictures for slides: charts and frames of text as SVG, which stays sharp at any size and needs nothing
// else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simulator/report/chart.h"

namespace flashsim {

/// The chart as a stand-alone SVG document of 760 x 440 units, with its source below. Points that are NaN, or
/// not positive on a logarithmic axis, are left out.
std::string svg(const Chart& chart);

/// Text as it looks in a terminal, in a font of fixed width: one frame of `flashsim step`, a table. ANSI
/// sequences are left out.
std::string svg_of_text(std::string_view text, std::string_view title);

/// The chart's numbers: a column for x (or the category) and one for each series. Fields are quoted where
/// they hold commas, quotes or line breaks.
std::string csv(const Chart& chart);

/// One line of CSV, with its line break.
std::string csv_line(const std::vector<std::string>& fields);

}  // namespace flashsim

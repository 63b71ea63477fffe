// Files for slides: what --chart and flashsim lesson export write.
#pragma once

#include <string>
#include <string_view>

#include "simulator/report/chart.h"

namespace flashsim::cli {

/// Throws UsageError unless `path` ends in .svg, .png or .csv.
void require_picture(const std::string& option, const std::string& path);

/// Whether it is numbers that the file's ending asks for.
bool wants_numbers(const std::string& path);

/// Writes the chart in the format that the file's ending names. PNG is made by rsvg-convert. Throws
/// InputError where the file cannot be written, or rsvg-convert is not installed.
void write_chart(const Chart& chart, const std::string& path);

/// Numbers as CSV. Throws InputError where the file cannot be written.
void write_numbers(const std::string& csv, const std::string& path);

/// An SVG document, as .svg or .png.
void write_picture(const std::string& svg, const std::string& path);

inline constexpr int picture_width = 100;  ///< columns of text in a picture, where nobody says otherwise

/// Text as it looks in a terminal, e.g. a frame of flashsim step, as .svg or .png.
void write_text_picture(std::string_view text, std::string_view title, const std::string& path);

}  // namespace flashsim::cli

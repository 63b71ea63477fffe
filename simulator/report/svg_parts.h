// The pieces that SVG documents are put together from.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace flashsim::svg_parts {

// Told apart by people who see colours differently, and in print (Paul Tol's bright scheme).
inline constexpr std::array<const char*, 6> colors = {"#4477aa", "#ee6677", "#228833",
                                                      "#aa3377", "#66ccee", "#ccbb44"};

/// Text with the characters that mean something to XML replaced.
std::string escaped(std::string_view text);

/// The whole document, `w` x `h` units, around what is in it.
std::string document(double w, double h, const std::string& body);

/// `anchor`: start, middle or end; `more`: further attributes, with a space before them.
std::string text_at(double x, double y, std::string_view text, const char* anchor, const char* more = "");

std::string line(double x1, double y1, double x2, double y2, const char* color);

}  // namespace flashsim::svg_parts

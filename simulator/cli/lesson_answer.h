// What a reader types during a lesson: a prediction, or where to go.
#pragma once

#include <optional>
#include <string>

namespace flashsim::cli {

/// A typed prediction: a number, or why it is none, as a sentence for the reader.
struct TypedNumber {
  std::optional<double> value;
  std::string fault;
};

/// "72", "1,048,576", "7.2e1" and, where `unit` is KiB, "72 KiB" are numbers. Refused with a reason: "10^5",
/// "1/2", "7,5" (a comma stands before three digits), "72 MB" (another unit), infinity and NaN.
TypedNumber typed_number(const std::string& text, const std::string& unit);

/// An empty line, "?" or "-": the question is skipped.
bool is_skip(const std::string& text);

enum class PageTurn { on, back, quit };
/// Enter, b (back) or q (quit); nothing for anything else.
std::optional<PageTurn> typed_turn(const std::string& text);

}  // namespace flashsim::cli

#include "simulator/cli/lesson_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace flashsim::cli {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? std::string() : text.substr(begin, end - begin + 1);
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Whether every comma stands between groups of digits, three after it.
bool commas_group_thousands(const std::string& text) {
  for (std::size_t i = text.find(','); i != std::string::npos; i = text.find(',', i + 1)) {
    std::size_t digits = 0;
    while (i + 1 + digits < text.size() && is_digit(text[i + 1 + digits])) ++digits;
    if (i == 0 || !is_digit(text[i - 1]) || digits != 3) return false;
  }
  return true;
}

}  // namespace

TypedNumber typed_number(const std::string& typed, const std::string& unit) {
  std::string text = trimmed(typed);
  if (!commas_group_thousands(text))
    return {{}, "Write decimals with a point; a comma stands before three digits, as in 1,024."};
  std::erase(text, ',');
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  double value = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return {{}, "That is not a number."};
  const std::string rest = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  if (std::any_of(rest.begin(), rest.end(), is_digit))
    return {{}, "Type a single number, as 0.5 or 1e5; nothing is calculated here."};
  const bool times = unit == "times" && (rest == "x" || rest == "X");
  if (!rest.empty() && lower_case(rest) != lower_case(unit) && !times)
    return {{}, unit.empty() ? "Type only a number." : fmt::format("Type only a number, in {}.", unit)};
  return {value, {}};
}

bool is_skip(const std::string& text) {
  const std::string t = trimmed(text);
  return t.empty() || t == "?" || t == "-";
}

std::optional<PageTurn> typed_turn(const std::string& text) {
  const std::string t = lower_case(trimmed(text));
  if (t.empty()) return PageTurn::on;
  if (t == "b" || t == "back") return PageTurn::back;
  if (t == "q" || t == "quit") return PageTurn::quit;
  return std::nullopt;
}

}  // namespace flashsim::cli

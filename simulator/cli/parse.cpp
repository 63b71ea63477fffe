#include "simulator/cli/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "simulator/cli/errors.h"
#include "simulator/cli/style.h"

namespace flashsim::cli {
namespace {

/// Letters to insert, remove or replace to get from one word to the other (Levenshtein distance).
int distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i) + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::int64_t parse_integer(std::string_view name, std::string_view text, std::int64_t min, std::int64_t max) {
  const auto expected = [&] {
    return fmt::format("a whole number from {} to {}", grouped(min), grouped(max));
  };
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  std::int64_t factor = 1;
  if (fault == std::errc() && rest + 1 == end)
    factor = *rest == 'K' || *rest == 'k' ? 1024 : *rest == 'M' || *rest == 'm' ? 1024 * 1024 : 0;
  const bool number = fault == std::errc() && factor != 0 && (rest == end || rest + 1 == end);
  if (!number && fault != std::errc::result_out_of_range)
    throw UsageError(fmt::format("{} is '{}', which is not a number; expected {}", name, text, expected()));
  if (!number || value > max / factor || value < min / factor || value * factor < min)
    throw UsageError(fmt::format("{} is {}; expected {}", name, text, expected()));
  return value * factor;
}

double parse_number(std::string_view name, std::string_view text, double min, double max) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  const bool too_large = fault == std::errc::result_out_of_range;
  if (text.empty() || rest != end || (fault != std::errc() && !too_large))
    throw UsageError(fmt::format("{} is '{}', which is not a number", name, text));
  if (too_large || !(value >= min && value <= max && std::isfinite(value)))
    throw UsageError(max < 1e300
                         ? fmt::format("{} is {}; expected a number from {} to {}", name, text, min, max)
                         : fmt::format("{} is {}; expected a finite number", name, text));
  return value;
}

std::vector<std::string> parse_list(std::string_view name, std::string_view text) {
  std::vector<std::string> items;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    items.emplace_back(text.substr(begin, end - begin));
    if (items.back().empty())
      throw UsageError(fmt::format(
          "{} is '{}', which has an empty entry; expected values with a comma between them", name, text));
    begin = end + 1;
  }
  return items;
}

std::vector<double> parse_numbers(std::string_view name, std::string_view text) {
  std::vector<double> values;
  for (const std::string& item : parse_list(name, text))
    values.push_back(parse_number(name, item, -1.7e308, 1.7e308));
  return values;
}

std::size_t parse_choice(std::string_view name, std::string_view text,
                         const std::vector<std::string>& choices) {
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  const std::string meant = closest(text, choices);
  throw UsageError(fmt::format("{} is '{}'; expected one of {}{}", name, text, fmt::join(choices, ", "),
                               meant.empty() ? "" : ". Did you mean " + meant + "?"));
}

std::string closest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  int best_distance = 3;
  for (const std::string& candidate : known) {
    const int d = distance(word, candidate);
    if (d < best_distance && d < static_cast<int>(candidate.size())) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace flashsim::cli

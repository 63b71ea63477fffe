// Text from the command line turned into values, with messages that say what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flashsim::cli {

/// A whole number in [min, max]; a suffix K or M multiplies by 1,024 or 1,048,576. `name` is the option, for
/// the message. Throws UsageError.
std::int64_t parse_integer(std::string_view name, std::string_view text, std::int64_t min, std::int64_t max);

/// A finite number in [min, max].
double parse_number(std::string_view name, std::string_view text, double min, double max);

/// Finite numbers separated by commas, at least one.
std::vector<double> parse_numbers(std::string_view name, std::string_view text);

/// The pieces of `text` between commas. None may be empty.
std::vector<std::string> parse_list(std::string_view name, std::string_view text);

/// Which of `choices` `text` is. The message lists them and points at the one that was probably meant.
std::size_t parse_choice(std::string_view name, std::string_view text,
                         const std::vector<std::string>& choices);

/// The known word that differs from `word` in at most two letters; empty where there is none.
std::string closest(std::string_view word, const std::vector<std::string>& known);

}  // namespace flashsim::cli

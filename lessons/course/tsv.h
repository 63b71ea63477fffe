// Tables with tabs between fields, as the recorded measurements have them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace flashsim::course {

/// A line's fields by the names in the heading.
using TsvRow = std::map<std::string, std::string>;

/// Lines that begin with # are comments; the first other line names the fields. A line with another number of
/// fields throws std::invalid_argument.
std::vector<TsvRow> parse_tsv(std::string_view text);

}  // namespace flashsim::course

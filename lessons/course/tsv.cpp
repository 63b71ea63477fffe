#include "lessons/course/tsv.h"

#include <sstream>
#include <stdexcept>

namespace flashsim::course {

std::vector<TsvRow> parse_tsv(std::string_view text) {
  std::istringstream file{std::string(text)};
  std::vector<std::string> names;
  std::vector<TsvRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
    if (names.empty()) {
      names = fields;
      continue;
    }
    if (fields.size() != names.size())
      throw std::invalid_argument("a line has " + std::to_string(fields.size()) + " fields, expected " +
                                  std::to_string(names.size()) + ": " + line);
    TsvRow row;
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = fields[i];
    rows.push_back(row);
  }
  return rows;
}

}  // namespace flashsim::course

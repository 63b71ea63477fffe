// Tables of text that fit the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/cli/style.h"

namespace flashsim::cli {

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string title;
  Align align = Align::right;
  int importance = 0;  ///< columns with the highest go first where the table is too wide; 0 never goes
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One text a column; fewer leave the rest empty. A trailing newline is no part of a cell.
  void row(std::vector<std::string> cells);
  /// A line across the table.
  void rule();
  bool empty() const { return rows_.empty(); }

  /// At most `width` columns wide where that can be had by leaving out columns by their importance and then
  /// by cutting the longest left-aligned one; each line begins with `indent` spaces.
  std::string text(const Style& style, int width, int indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  ///< an empty row is a rule
};

}  // namespace flashsim::cli

// How text looks on a terminal: colours, where they are wanted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "simulator/report/units.h"

namespace flashsim::cli {

enum class Color : std::uint8_t { automatic, always, never };

/// Whether to colour what goes to file descriptor `fd`: `automatic` colours terminals, unless NO_COLOR is set
/// and not empty or TERM is "dumb".
bool wants_color(Color wish, int fd);

/// Adds ANSI sequences, or leaves text as it is.
class Style {
 public:
  explicit Style(bool colored = false) : colored_(colored) {}
  bool colored() const { return colored_; }
  std::string bold(std::string_view s) const { return in("1", s); }
  std::string dim(std::string_view s) const { return in("2", s); }
  std::string red(std::string_view s) const { return in("31", s); }
  std::string green(std::string_view s) const { return in("32", s); }
  std::string yellow(std::string_view s) const { return in("33", s); }
  std::string cyan(std::string_view s) const { return in("36", s); }
  /// SGR parameters of one's own, e.g. "1;34".
  std::string in(std::string_view code, std::string_view s) const;

 private:
  bool colored_;
};

/// Columns of the terminal behind `fd`; elsewhere those that the variable COLUMNS asks for, or 80. At
/// least 40.
int columns_of(int fd);

/// Lines of the terminal behind `fd`; 24 elsewhere. At least 10.
int rows_of(int fd);

/// How many columns `s` takes: code points, without ANSI sequences.
int display_width(std::string_view s);

/// `s` broken at spaces into lines of at most `width` columns; "16 KiB" and its like are not broken.
std::string wrapped(std::string_view s, int width);
/// Every line of `s` but the first moved right by `columns`.
std::string indented(std::string_view s, int columns);

}  // namespace flashsim::cli

#include "simulator/cli/style.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace flashsim::cli {
namespace {

/// Four significant digits below 10, three above, without trailing zeros of a whole number.
std::string significant(double x) {
  const double magnitude = std::abs(x);
  if (x == std::floor(x) && magnitude < 10000) return fmt::format("{:.0f}", x);
  const int decimals = magnitude >= 100 ? 1 : magnitude >= 10 ? 2 : 3;
  return fmt::format("{:.{}f}", x, decimals);
}

template <std::size_t N>
std::string scaled(double x, double base, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  while (std::abs(x) >= base && unit + 1 < N) {
    x /= base;
    ++unit;
  }
  return units[unit][0] == '\0' ? significant(x) : significant(x) + " " + units[unit];
}

}  // namespace

bool wants_color(Color wish, int fd) {
  if (wish != Color::automatic) return wish == Color::always;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && no_color[0] != '\0') return false;
  if (term == nullptr || std::string_view(term) == "dumb") return false;
  return isatty(fd) != 0;
}

std::string Style::in(std::string_view code, std::string_view s) const {
  if (!colored_ || s.empty()) return std::string(s);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, s);
}

int columns_of(int fd) {
  int columns = 80;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    columns = size.ws_col;
  } else if (const char* wish = std::getenv("COLUMNS"); wish != nullptr) {
    const int n = std::atoi(wish);
    if (n > 0) columns = n;
  }
  return std::clamp(columns, 40, 1000);
}

int display_width(std::string_view s) {
  int width = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '\x1b') {
      i = std::min(s.find('m', i), s.size() - 1);
    } else if ((static_cast<unsigned char>(s[i]) & 0xc0U) != 0x80U) {
      ++width;
    }
  }
  return width;
}

std::string wrapped(std::string_view s, int width) {
  std::string text;
  int column = 0;
  while (!s.empty()) {
    const std::size_t end = std::min(s.find(' '), s.size());
    const std::string_view word = s.substr(0, end);
    const int columns = display_width(word);
    if (column > 0 && column + 1 + columns > width) {
      text += '\n';
      column = 0;
    } else if (column > 0) {
      text += ' ';
      ++column;
    }
    text += word;
    column += columns;
    s.remove_prefix(std::min(end + 1, s.size()));
  }
  return text;
}

std::string indented(std::string_view s, int columns) {
  std::string text;
  for (const char c : s) {
    text += c;
    if (c == '\n') text += std::string(static_cast<std::size_t>(columns), ' ');
  }
  return text;
}

std::string decimal_bytes(double bytes) {
  return scaled(bytes, 1000, std::array{"B", "kB", "MB", "GB", "TB", "PB"});
}
std::string binary_bytes(double bytes) {
  return scaled(bytes, 1024, std::array{"B", "KiB", "MiB", "GiB", "TiB"});
}
std::string count(double n) { return scaled(n, 1000, std::array{"", "k", "M", "G", "T", "P"}); }

std::string seconds(double s) {
  if (s >= 1) return significant(s) + " s";
  if (s >= 1e-3) return significant(s * 1e3) + " ms";
  return significant(s * 1e6) + " us";
}

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  const std::ptrdiff_t first = digits[0] == '-' ? 1 : 0;
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > first; i -= 3)
    digits.insert(static_cast<std::size_t>(i), ",");
  return digits;
}

}  // namespace flashsim::cli

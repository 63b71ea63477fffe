#include "simulator/cli/style.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace flashsim::cli {

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

int rows_of(int fd) {
  winsize size{};
  const bool known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return std::max(10, known ? int{size.ws_row} : 24);
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

namespace {
/// Whether `s`, what follows a space, begins with a unit of bytes, which stays with its number.
bool begins_with_unit(std::string_view s) {
  const std::string_view word = s.substr(0, s.find_first_of(" ,.;:)"));
  for (const char* unit : {"B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB"})
    if (word == unit) return true;
  return false;
}
}  // namespace

std::string wrapped(std::string_view s, int width) {
  std::string text;
  int column = 0;
  while (!s.empty()) {
    std::size_t end = std::min(s.find(' '), s.size());
    if (end > 0 && end < s.size() && std::isdigit(static_cast<unsigned char>(s[end - 1])) != 0 &&
        begins_with_unit(s.substr(end + 1)))
      end = std::min(s.find(' ', end + 1), s.size());
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

}  // namespace flashsim::cli

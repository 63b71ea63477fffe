#include "simulator/report/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>

namespace flashsim {
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

}  // namespace flashsim

#include "simulator/user_schedule/printable.h"

#include <cstddef>
#include <cstdint>

namespace flashsim {
namespace {

struct Decoded {
  std::size_t length = 0;  ///< 0: no UTF-8 begins here
  std::uint32_t character = 0;
};

Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, first};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc0 || first > 0xf4 || text.size() < length) return {};
  std::uint32_t c = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    c = c << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};  // longer forms than needed are no UTF-8
  const bool surrogate = c >= 0xd800 && c <= 0xdfff;
  if (c < least[length] || surrogate || c > 0x10ffff) return {};
  return {length, c};
}

bool harmless(std::uint32_t c) {
  if (c == '\n' || c == '\t') return true;
  if (c == 0xfffe || c == 0xffff) return false;  // XML has no way to hold these
  return c >= 0x20 && !(c >= 0x7f && c < 0xa0);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded d = decode(text);
    if (d.length > 0 && harmless(d.character))
      out += text.substr(0, d.length);
    else
      out += '?';
    text.remove_prefix(d.length > 0 ? d.length : 1);
  }
  return out;
}

}  // namespace flashsim

#include "simulator/report/svg_parts.h"

#include <fmt/format.h>

namespace flashsim::svg_parts {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string document(double w, double h, const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222222\">\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
      w, h, body);
}

std::string text_at(double x, double y, std::string_view text, const char* anchor, const char* more) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* color) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1,
                     y1, x2, y2, color);
}

}  // namespace flashsim::svg_parts

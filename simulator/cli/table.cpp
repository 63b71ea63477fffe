#include "simulator/cli/table.h"

#include <algorithm>
#include <numeric>

namespace flashsim::cli {
namespace {

constexpr int gap = 2;

/// The first `width` columns of s, the last of which says that something is missing. Cells hold no ANSI
/// sequences where they have to be cut: those are added to short cells only.
std::string cut(const std::string& s, int width) {
  if (display_width(s) <= width) return s;
  std::string kept;
  int columns = 0;
  for (const char c : s) {
    const bool begins = (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
    if (begins && ++columns > width - 1) break;
    kept += c;
  }
  return kept + "~";
}

std::string padded(const std::string& s, int width, Align align) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(s))), ' ');
  return align == Align::left ? s + space : space + s;
}

}  // namespace

void Table::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::rule() { rows_.emplace_back(); }

std::string Table::text(const Style& style, int width, int indent) const {
  std::vector<int> widths(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths[c] = display_width(columns_[c].title);
    for (const auto& cells : rows_)
      if (!cells.empty()) widths[c] = std::max(widths[c], display_width(cells[c]));
  }
  std::vector<std::size_t> shown(columns_.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  const auto total = [&] {
    int sum = indent - gap;
    for (const std::size_t c : shown) sum += widths[c] + gap;
    return sum;
  };
  while (total() > width) {
    // Of equal importance, the rightmost goes first.
    const auto least = std::max_element(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
      return columns_[a].importance <= columns_[b].importance;
    });
    if (columns_[*least].importance == 0) break;
    shown.erase(least);
  }
  if (total() > width) {
    const auto longest = std::max_element(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
      return (columns_[a].align == Align::left ? widths[a] : 0) <
             (columns_[b].align == Align::left ? widths[b] : 0);
    });
    widths[*longest] = std::max(4, widths[*longest] - (total() - width));
  }

  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text(static_cast<std::size_t>(indent), ' ');
    for (const std::size_t c : shown) {
      if (c != shown.front()) text += std::string(gap, ' ');
      text += padded(cut(cells[c], widths[c]), widths[c], columns_[c].align);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string text = style.bold(line(titles)) + "\n";
  for (const auto& cells : rows_)
    text += (cells.empty()
                 ? std::string(static_cast<std::size_t>(indent), ' ') +
                       style.dim(std::string(static_cast<std::size_t>(std::max(0, total() - indent)), '-'))
                 : line(cells)) +
            "\n";
  return text;
}

}  // namespace flashsim::cli

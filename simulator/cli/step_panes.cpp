#include "simulator/cli/step_panes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace flashsim::cli {
namespace {

std::string signs(const Scene& s, const std::string& text) { return with_signs(text, s.view.unicode); }

/// A bar of `width` columns: `part` of `whole` filled, the first `hatched` of it in another shade.
std::string bar(const Scene& s, double part, double whole, int width, double hatched = 0,
                const char* color = "36") {
  const auto columns = [&](double x) {
    return whole > 0 ? std::clamp(static_cast<int>(std::lround(x / whole * width)), 0, width) : 0;
  };
  const int filled = std::max(columns(part), part > 0 ? 1 : 0), other = std::min(columns(hatched), filled);
  const auto repeated = [](const char* text, int n) {
    std::string all;
    for (int k = 0; k < n; ++k) all += text;
    return all;
  };
  const bool u = s.view.unicode;
  return s.style().in("33", repeated(u ? "▒" : "%", other)) +
         s.style().in(color, repeated(u ? "█" : "#", filled - other)) +
         s.style().dim(repeated(u ? "░" : ".", width - filled));
}

std::string number(double x, bool unicode) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x < 0 ? (unicode ? "−∞" : "-inf") : (unicode ? "∞" : "inf");
  const double magnitude = std::abs(x);
  if (magnitude != 0 && (magnitude < 1e-3 || magnitude >= 1e5)) return fmt::format("{:.2e}", x);
  return fmt::format("{:.4f}", x);
}

std::string right(const std::string& text, int width) {
  return std::string(std::max(0, width - display_width(text)), ' ') + text;
}

}  // namespace

std::string fitted(const std::string& text, int width) {
  std::string out;
  int columns = 0;
  for (std::size_t k = 0; k < text.size();) {
    if (text[k] == '\x1b') {
      const std::size_t end = text.find('m', k);
      out += text.substr(k, end - k + 1);
      k = end + 1;
      continue;
    }
    std::size_t length = 1;
    while (k + length < text.size() && (static_cast<unsigned char>(text[k + length]) & 0xc0) == 0x80)
      ++length;
    if (columns < width) out += text.substr(k, length);
    columns += columns < width ? 1 : 0;
    k += length;
  }
  return out + std::string(std::max(0, width - columns), ' ');
}

Lines wrapped_lines(const std::string& text, int width) {
  const std::string broken = wrapped(text, width);
  Lines lines;
  for (std::size_t at = 0; at < broken.size();) {
    const std::size_t end = std::min(broken.find('\n', at), broken.size());
    lines.push_back(broken.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

Lines list_lines(std::string list, int width) {
  constexpr char kept = '\1';  // a space within an entry
  for (std::size_t k = 1; k < list.size(); ++k)
    if (list[k] == ' ' && list[k - 1] != ',' && list[k - 1] != ';') list[k] = kept;
  Lines lines = wrapped_lines(list, width);
  for (std::string& line : lines) std::replace(line.begin(), line.end(), kept, ' ');
  return lines;
}

// ----------------------------------------------------------------------------------------------------
// listing

Lines listing_pane(const Scene& s, int width, int height) {
  const Recording& r = s.recording;
  const Frame& f = s.frame();
  const RecordedKernel& kernel = r.kernels[f.at.kernel];
  Lines lines;
  std::size_t first_marked = 0, last_marked = 0;
  bool any = false;
  const auto mark_place = [&] {
    if (!any) first_marked = lines.size();
    last_marked = lines.size();
    any = true;
  };
  for (std::size_t k = 0; k < kernel.listing.size(); ++k) {
    const ListingLine& line = kernel.listing[k];
    if (kernel.roles && (k == 0 || kernel.listing[k - 1].producer != line.producer))
      lines.push_back(s.style().dim(line.producer ? "  producer warp:" : "  consumer warpgroups:"));
    const auto ran = std::find_if(f.lines.begin(), f.lines.end(),
                                  [&](const ExecutedLine& x) { return x.line == static_cast<int>(k); });
    const bool now = ran != f.lines.end();
    const std::string bytes =
        now && ran->bytes > 0 ? decimal_bytes(static_cast<double>(ran->bytes)) : std::string();
    const int room = width - 2 - (bytes.empty() ? 0 : display_width(bytes) + 1);
    const std::string indent(2 * line.depth, ' '), whole = signs(s, line.text);
    const int text_room = room - 2 * line.depth;
    const bool fits = display_width(whole) <= text_room;
    bool first = true;
    for (const std::string& part : fits ? Lines{whole} : list_lines(whole, text_room - 2)) {
      const std::string text = indent + (first ? "" : "  ") + part;
      if (now) {
        mark_place();
        lines.push_back(s.style().in("1;33", !first           ? "  "
                                             : s.view.unicode ? "▸ "
                                                              : "> ") +
                        fitted(text, room) + (bytes.empty() || !first ? "" : " " + s.style().cyan(bytes)));
      } else {
        lines.push_back(s.style().dim(fitted("  " + text, width)));
      }
      first = false;
    }
  }
  const std::string head = fmt::format("kernel \"{}\", {} thread block{}", kernel.name,
                                       grouped(kernel.blocks), kernel.blocks == 1 ? "" : "s");
  Lines all = {s.style().bold(fitted(signs(s, head), width))};
  std::size_t begin = 0, end = lines.size();
  if (height > 0 && static_cast<int>(lines.size()) > height - 1) {
    const auto room = static_cast<std::size_t>(std::max(1, height - 1));
    const std::size_t wanted = last_marked + 1 > room ? last_marked + 1 - room : 0;
    begin = std::min(wanted, first_marked);
    begin = std::min(begin, lines.size() - room);
    end = begin + room;
  }
  all.insert(all.end(), lines.begin() + begin, lines.begin() + end);
  if (last_marked >= end)
    all.back() = s.style().dim(
        fitted(fmt::format("  ... {} more lines; make the window taller", last_marked + 2 - end), width));
  return all;
}

// -------------------------------------------------------------------------------------------------------
// SRAM

Lines sram_pane(const Scene& s, int width, bool brief) {
  const Recording& r = s.recording;
  const SramState& state = r.sram[s.frame().sram];
  const auto in_use = static_cast<double>(state.sram), capacity = static_cast<double>(r.capacity);
  const bool over = state.sram > r.capacity;
  Lines lines = {s.style().bold(fmt::format("SRAM {} of {}", binary_bytes(in_use), binary_bytes(capacity)))};
  lines.push_back(bar(s, in_use, capacity, std::min(width, 48), 0, over ? "31" : "36"));
  if (over)
    lines.push_back(s.style().red(fitted(
        fmt::format("does not fit: {} too much", binary_bytes(static_cast<double>(state.sram - r.capacity))),
        width)));

  std::int64_t small = 0;
  std::string small_names, flowing;
  std::size_t name = 5;  // columns of the longest
  for (const LiveTile& x : state.tiles)
    if (x.cols != 1) name = std::max(name, name_of(x.tensor).size());
  const auto tile_line = [&](const LiveTile& x) {
    return signs(s, fmt::format("{:<{}} {:>9}  {:>8}{}", name_of(x.tensor), name,
                                fmt::format("{} x {}", x.rows, x.cols),
                                binary_bytes(static_cast<double>(x.bytes)), x.in_sram ? "" : "  registers"));
  };
  for (const LiveTile& x : state.tiles) {
    if (x.cols == 1 && x.in_sram) {
      small += x.bytes;
      small_names += (small_names.empty() ? "" : ", ") + std::string(name_of(x.tensor));
      continue;
    }
    if (brief && x.in_sram)
      flowing += fmt::format("{}{} {}", flowing.empty() ? "" : ", ", name_of(x.tensor),
                             binary_bytes(static_cast<double>(x.bytes)));
    if (!brief && !(x.cols == 1 && !x.in_sram)) lines.push_back(fitted(tile_line(x), width));
  }
  if (brief) {
    if (small > 0) flowing += fmt::format(", rows {}", binary_bytes(static_cast<double>(small)));
    if (r.placement == Placement::kernel)
      flowing += fmt::format("; registers {}", binary_bytes(static_cast<double>(state.registers)));
    const Lines tiles = list_lines(flowing, width);
    lines.insert(lines.end(), tiles.begin(), tiles.end());
    return lines;
  }
  if (small > 0)
    lines.push_back(fitted(
        fmt::format("{:<{}} {:>8}", "row statistics", name + 11, binary_bytes(static_cast<double>(small))),
        width));
  if (r.placement == Placement::kernel)
    lines.push_back(s.style().dim(fitted(
        fmt::format("registers: {} in all", binary_bytes(static_cast<double>(state.registers))), width)));
  else
    lines.push_back(
        s.style().dim(fitted(fmt::format("as the papers count: {} tiles", name_of(r.problem.dtype)), width)));
  return lines;
}

// -------------------------------------------------------------------------------------------------------
// rows

namespace {

struct RowColumn {
  RowQuantity what;
  std::string head;
};

std::vector<RowColumn> row_columns(const Scene& s) {
  const Frame& f = s.frame();
  std::vector<RowColumn> columns;
  const auto add = [&](RowQuantity q, const char* head) {
    if (!f.of(q).values.empty()) columns.push_back({q, signs(s, head)});
  };
  const bool running = !f.of(RowQuantity::m_before).values.empty();
  add(RowQuantity::m_before, "m before");
  add(RowQuantity::m, running ? "m after" : "m");
  add(RowQuantity::correction, "correction");
  add(RowQuantity::l_before, "l before");
  add(RowQuantity::l, !f.of(RowQuantity::l_before).values.empty() ? "l after" : "l");
  add(RowQuantity::lse, "LSE");
  add(RowQuantity::d, "D");
  return columns;
}

/// The rows asked for, or some spread over those the step works on.
std::vector<int> rows_to_show(const Scene& s, int most) {
  if (!s.view.rows.empty()) {
    std::vector<int> rows = s.view.rows;
    if (static_cast<int>(rows.size()) > most) rows.resize(most);
    return rows;
  }
  const Frame& f = s.frame();
  const int n = std::min(most, f.row_count);
  std::vector<int> rows;
  for (int k = 0; k < n; ++k) rows.push_back(f.first_row + k * f.row_count / n);
  return rows;
}

/// "row 5", or which query of which head a packed row stands for.
std::string row_name(const Scene& s, int row) {
  if (!s.recording.packed) return std::to_string(row);
  const int group = s.recording.problem.group();
  return fmt::format("{} h{}", row / group, s.recording.head + row % group);
}

}  // namespace

Lines rows_pane(const Scene& s, int width, int most) {
  const Frame& f = s.frame();
  const std::vector<RowColumn> columns = row_columns(s);
  const std::vector<int> rows = rows_to_show(s, most);
  if (columns.empty()) {
    Lines lines = {s.style().bold(fitted("row statistics", width)),
                   s.style().dim(fitted("  none in this step", width))};
    lines.resize(
        std::max<std::size_t>(lines.size(), 1 + static_cast<std::size_t>(s.view.height > 0 ? most : 1)));
    return lines;
  }
  const int cell = std::min(13, (width - 8) / static_cast<int>(columns.size()));
  std::string head = right("row", 7);
  for (const RowColumn& c : columns) head += right(c.head, cell);
  Lines lines = {s.style().bold(fitted(head, width))};
  for (const int row : rows) {
    std::string line = right(row_name(s, row), 7);
    if (row < f.first_row || row >= f.first_row + f.row_count) {
      lines.push_back(s.style().dim(fitted(line + "   not among the rows of this step", width)));
      continue;
    }
    const float before = f.of(RowQuantity::m_before).of(row), after = f.of(RowQuantity::m).of(row);
    const bool grew = !std::isinf(before) && before < after;
    for (const RowColumn& c : columns) {
      const std::string text = right(number(f.of(c.what).of(row), s.view.unicode), cell);
      const bool bright = grew && (c.what == RowQuantity::m || c.what == RowQuantity::correction);
      line += bright ? s.style().in("1;33", text) : text;
    }
    lines.push_back(fitted(line, width));
  }
  return lines;
}

// ------------------------------------------------------------------------------------------------------
// bytes

Lines bytes_pane(const Scene& s, int width, Detail detail) {
  const Recording& r = s.recording;
  const Frame &f = s.frame(), &last = r.frames.back();
  const std::int64_t ours = r.requested(f);
  const std::int64_t step = ours - (s.index > 0 ? r.requested(r.frames[s.index - 1]) : 0);
  const bool is_standard = s.title.name.rfind("standard", 0) == 0, compare = r.has_standard && !is_standard;
  Lines lines;
  const bool brief = detail != Detail::full, bars_only = detail == Detail::line;
  if (!bars_only)
    lines.push_back(s.style().bold(fitted("requested bytes", 17)) +
                    s.style().dim(fitted(
                        fmt::format("this step {}", decimal_bytes(static_cast<double>(step))), width - 17)));
  const double whole = static_cast<double>(std::max(r.requested(last), compare ? last.standard : 0));
  const int figure = 10, name_width = 10 + (bars_only ? 10 : 0);
  const int bar_width = std::clamp(width - name_width - figure - 2, 8, 44);
  const auto one = [&](const std::string& name, std::int64_t bytes, std::int64_t hatched) {
    return fitted(fitted((bars_only ? "requested " : "") + name, name_width) +
                      right(decimal_bytes(static_cast<double>(bytes)), figure) + "  " +
                      bar(s, static_cast<double>(bytes), whole, bar_width, static_cast<double>(hatched)),
                  width);
  };
  std::int64_t own_scores = 0;
  for (std::size_t k = 0; k < r.moves.size(); ++k)
    if (is_score_shaped(r.moves[k].tensor)) own_scores += r.requested(s.index, k);
  lines.push_back(one(s.title.name, ours, own_scores));
  if (compare) lines.push_back(one("standard", f.standard, f.standard_scores));
  if (bars_only) return lines;
  const char* shade = s.view.unicode ? "▒" : "%";
  const std::string scores =
      fmt::format("{} {} of it n x n", shade,
                  decimal_bytes(static_cast<double>(compare ? f.standard_scores : own_scores)));
  const char* plural = f.tiles_done == 1 ? "" : "s";
  std::string note;
  if (compare && f.tiles_done > 0) note = fmt::format("  same {} tile{}; {}", f.tiles_done, plural, scores);
  if (!compare && own_scores > 0) note = "  " + scores;
  lines.push_back(s.style().dim(fitted(signs(s, note), width)));
  if (brief) return lines;
  for (std::size_t k = 0; k < r.moves.size(); ++k) {
    const std::int64_t bytes = r.requested(s.index, k),
                       before = s.index > 0 ? r.requested(s.index - 1, k) : 0;
    if (bytes == 0) continue;
    const char* verb = r.moves[k].direction == Direction::read      ? "read"
                       : r.moves[k].direction == Direction::written ? "written"
                                                                    : "added";
    const std::string now = bytes > before ? "+" + decimal_bytes(static_cast<double>(bytes - before)) : "";
    lines.push_back(fitted(fmt::format("  {:<8}{:<8}{:>9}{:>11}", name_of(r.moves[k].tensor), verb,
                                       decimal_bytes(static_cast<double>(bytes)), now),
                           width));
  }
  return lines;
}

// ------------------------------------------------------------------------------------------------------
// error

Lines error_pane(const Scene& s, int width, bool brief) {
  const Recording& r = s.recording;
  const Frame& f = s.frame();
  const std::string head = s.style().bold("oracle  ");
  brief = brief || r.outputs.size() == 1;
  Lines lines;
  std::string line;
  for (std::size_t k = 0; k < r.outputs.size(); ++k) {
    const OutputState& o = f.outputs[k];
    const Tensor x = r.outputs[k];
    const int total = rows_of(x, r.problem, r.tiling) * (is_key_side(x) ? 1 : r.heads);
    const std::string off = number(o.distance, s.view.unicode), worst = number(o.error, s.view.unicode);
    std::string text(name_of(x));
    if (brief && r.outputs.size() > 1) {
      text +=
          o.distance >= 0 ? fmt::format(" {} off", off) : fmt::format(" {} of {} rows", o.finished, total);
      if (!(o.distance >= 0) && o.finished > 0) text += fmt::format(" to {}", worst);
    } else {
      text += fmt::format(": {} of {} rows done", grouped(o.finished), grouped(total));
      if (o.finished > 0) text += fmt::format(", largest error {} at row {}, column {}", worst, o.row, o.col);
      if (o.distance >= 0) text += fmt::format("{} sum so far is {} off", o.finished > 0 ? ";" : ",", off);
    }
    line += (line.empty() ? "" : "; ") + text;
    lines.push_back(fitted("  " + text, width));
  }
  if (brief) return {fitted(head + line, width)};
  lines.insert(lines.begin(), fitted(head, width));
  return lines;
}

}  // namespace flashsim::cli

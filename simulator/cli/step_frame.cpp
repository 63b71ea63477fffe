#include "simulator/cli/step_frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/cli/step_panes.h"

namespace flashsim::cli {
namespace {

constexpr int two_columns = 120, three_columns = 170;  // from these widths on
constexpr std::string_view gap = "  ";

void append(Lines& to, const Lines& more, bool blank_between = true) {
  if (blank_between && !to.empty()) to.emplace_back();
  to.insert(to.end(), more.begin(), more.end());
}

/// Columns side by side; each is as wide as the number beside it.
Lines beside(const std::vector<std::pair<Lines, int>>& columns) {
  std::size_t height = 0;
  for (const auto& [lines, width] : columns) height = std::max(height, lines.size());
  Lines all(height);
  for (std::size_t row = 0; row < height; ++row)
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto& [lines, width] = columns[c];
      const bool last = c + 1 == columns.size();
      all[row] += fitted(row < lines.size() ? lines[row] : "", width);
      if (!last) all[row] += gap;
    }
  return all;
}

/// Where we are: title, problem, and the step in words. The same problem and width give equally many lines.
Lines heading(const Scene& s, int caption_lines) {
  const Recording& r = s.recording;
  const int width = s.view.width;
  const std::string step = fmt::format("step {} of {}", grouped(s.index + 1), grouped(r.frames.size()));
  const std::string pass = r.backward ? ", backward" : ", forward";
  const int room = width - display_width(step) - 1;
  Lines lines = {s.style().bold(fitted(s.title.algorithm + pass, room)) + " " + s.style().bold(step)};
  std::string about = describe(r.problem);
  if (r.problem.batch * r.problem.heads_q > 1 && !r.packed)
    about += fmt::format(", head {}", r.head + (s.frame().at.visits_tile() ? s.frame().at.rows.group
                                                                           : s.frame().at.block.row.group));
  about += fmt::format("; tiles {} x {}; {}", r.tiling.block_q, r.tiling.block_k, s.title.gpu);
  for (const std::string& line : list_lines(with_signs(about, s.view.unicode), width))
    lines.push_back(s.style().dim(line));
  std::string role;
  if (r.kernels[s.frame().at.kernel].roles && s.frame().at.role > 0)
    role = fmt::format("Consumer {}: ", s.frame().at.role);
  std::string words = with_signs(role + step_caption(r, s.index), s.view.unicode);
  Lines caption = wrapped_lines(words, width);
  if (s.view.height > 0)  // the window has room for so much: whole sentences where they fit
    while (static_cast<int>(caption.size()) > caption_lines) {
      const std::size_t end = words.rfind(". ");
      if (end == std::string::npos) break;
      words.resize(end + 1);
      caption = wrapped_lines(words, width);
    }
  caption.resize(s.view.height > 0 ? caption_lines : std::max<std::size_t>(caption.size(), caption_lines));
  append(lines, caption, s.view.height == 0 || s.view.height >= 28);
  return lines;
}

/// Map and SRAM beside the listing, everything else below.
Lines narrow(const Scene& s) {
  const int width = s.view.width, height = s.view.height;
  const bool any_height = height == 0, tight = !any_height && height < 28,
             blanks = any_height || height >= 34;
  Lines lines = heading(s, width < 70 || height >= 38 ? 4 : 3);
  const Lines rows = rows_pane(s, width, tight ? 2 : 4);
  const Lines bytes = bytes_pane(s, width, tight ? Detail::line : Detail::brief);
  const Lines error = error_pane(s, width, tight);
  const int below = static_cast<int>(rows.size() + bytes.size() + error.size()) + (blanks ? 3 : 0);
  const int room =
      any_height ? 0 : std::max(6, height - static_cast<int>(lines.size()) - below - (blanks ? 1 : 0));
  const int left_width = std::clamp(width * 3 / 8, 20, 34);
  const Lines sram = sram_pane(s, left_width, true);
  const int sram_lines = any_height ? 0 : std::min(static_cast<int>(sram.size()), std::max(2, room - 7));
  Lines left = map_pane(s, left_width, any_height ? 0 : std::max(4, room - sram_lines));
  append(left, sram, any_height || static_cast<int>(left.size() + sram.size()) < room);
  if (!any_height && static_cast<int>(left.size()) > room) left.resize(room);
  append(
      lines,
      beside({{left, left_width}, {listing_pane(s, width - left_width - 2, room), width - left_width - 2}}),
      blanks);
  append(lines, rows, blanks);
  append(lines, bytes, blanks);
  append(lines, error, blanks);
  return lines;
}

Lines wide(const Scene& s) {
  const int width = s.view.width, height = s.view.height;
  Lines lines = heading(s, 2);
  const bool three = width >= three_columns;
  const int room = height == 0 ? 0 : std::max(10, height - static_cast<int>(lines.size()) - 1);
  const int left_width = std::clamp(width / 3, 38, 52),
            middle = three ? std::clamp(width * 3 / 10, 50, 60) : 0;
  const int right = width - left_width - 2 - (three ? middle + 2 : 0);
  const int most_rows = room == 0 ? 6 : std::clamp(room / 4, 2, 8);
  const Lines sram = sram_pane(s, left_width, room > 0 && room < 24);
  const bool table = room == 0 || room >= (three ? 30 : 42);
  const Lines bytes = bytes_pane(s, three ? right : left_width, table ? Detail::full : Detail::brief);
  const int below = static_cast<int>(sram.size()) + 2 + (three ? 0 : static_cast<int>(bytes.size()) + 1);
  Lines left = map_pane(s, left_width, room == 0 ? 0 : std::max(5, room - below));
  append(left, sram);
  if (!three) append(left, bytes);
  const Lines rows = rows_pane(s, right, most_rows), error = error_pane(s, right, false);
  if (three) {
    Lines figures = rows;
    append(figures, bytes);
    append(figures, error);
    append(lines, beside({{left, left_width}, {listing_pane(s, middle, room), middle}, {figures, right}}));
  } else {
    const int used = static_cast<int>(rows.size() + error.size()) + 2;
    Lines column = listing_pane(s, right, room == 0 ? 0 : std::max(8, room - used));
    append(column, rows);
    append(column, error);
    append(lines, beside({{left, left_width}, {column, right}}));
  }
  return lines;
}

}  // namespace

std::string render_frame(const Recording& r, const StepTitle& title, std::size_t frame,
                         const StepView& view) {
  const Scene scene{r, title, frame, view};
  const Lines lines = view.width >= two_columns ? wide(scene) : narrow(scene);
  std::string text;
  for (const std::string& line : lines) {
    std::string cut = fitted(line, view.width);
    while (!cut.empty() && cut.back() == ' ') cut.pop_back();
    text += cut + "\n";
  }
  return text;
}

}  // namespace flashsim::cli

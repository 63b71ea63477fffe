// The map of S.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/cli/step_panes.h"

namespace flashsim::cli {
namespace {

/// What a mark of the map stands for: one tile, or a square of them.
enum class Mark : std::uint8_t { not_yet, partly, done, current, hidden };

const char* sign(Mark m, bool unicode) {
  constexpr const char* ascii[] = {".", "+", "#", "@", "x"};
  constexpr const char* signs[] = {"·", "▒", "■", "◆", "×"};
  return (unicode ? signs : ascii)[static_cast<int>(m)];
}

std::string colored(const Style& style, Mark m, const char* text) {
  switch (m) {
    case Mark::done: return style.green(text);
    case Mark::partly: return style.green(text);
    case Mark::current: return style.in("1;33", text);
    case Mark::not_yet:
    case Mark::hidden: break;
  }
  return style.dim(text);
}

struct Map {
  int rows, cols, zoom;  ///< marks, and tiles a side of one
  std::vector<Mark> marks;
};

Map shrunk(const Recording& r, std::size_t frame, int most_rows, int most_cols) {
  const std::vector<TileState> states = tile_states(r, frame);
  const int rows = r.tile_rows(), cols = r.tile_cols();
  Map map{0, 0, 1, {}};
  while ((rows + map.zoom - 1) / map.zoom > most_rows || (cols + map.zoom - 1) / map.zoom > most_cols)
    ++map.zoom;
  map.rows = (rows + map.zoom - 1) / map.zoom;
  map.cols = (cols + map.zoom - 1) / map.zoom;
  for (int a = 0; a < map.rows; ++a)
    for (int b = 0; b < map.cols; ++b) {
      int done = 0, current = 0, visible = 0;
      for (int i = a * map.zoom; i < std::min(rows, (a + 1) * map.zoom); ++i)
        for (int j = b * map.zoom; j < std::min(cols, (b + 1) * map.zoom); ++j) {
          const TileState state = states[static_cast<std::size_t>(i) * cols + j];
          visible += state != TileState::hidden;
          done += state == TileState::done;
          current += state == TileState::current;
        }
      map.marks.push_back(current > 0       ? Mark::current
                          : visible == 0    ? Mark::hidden
                          : done == visible ? Mark::done
                          : done > 0        ? Mark::partly
                                            : Mark::not_yet);
    }
  return map;
}

}  // namespace

Lines map_pane(const Scene& s, int width, int height) {
  const Recording& r = s.recording;
  const Problem& p = r.problem;
  const bool unicode = s.view.unicode;
  const int around = 3;  // lines that are not the map
  const int most_rows = height > 0 ? std::max(1, height - around) : 32;
  const int label = 4, room = std::max(4, width - label);
  const Map map = shrunk(r, s.index, most_rows, std::min(room, 64));
  // Few tiles are drawn large: `side` lines high and twice as wide, less a space.
  const int side = std::clamp(std::min({room / (2 * map.cols), most_rows / map.rows, 8 / map.rows}), 1, 2);
  const int columns = 2 * map.cols <= room ? 2 * side - 1 : 1;

  const int rows = r.packed ? p.seqlen_q * p.group() : p.seqlen_q;
  const std::string head = fmt::format("S = Q K^T, {} x {}", rows, p.seqlen_k);
  Lines lines = {s.style().bold(with_signs(head, unicode)),
                 s.style().dim(unicode ? "  i↓ j→ K, V tiles" : "  i, j: tiles of Q, of K and V")};
  for (int a = 0; a < map.rows; ++a) {
    std::string line;
    bool here = false;
    for (int b = 0; b < map.cols; ++b) {
      const Mark m = map.marks[static_cast<std::size_t>(a) * map.cols + b];
      here = here || m == Mark::current;
      std::string mark;
      for (int c = 0; c < columns; ++c) mark += sign(m, unicode);
      line += colored(s.style(), m, mark.c_str());
      if (2 * map.cols <= room && b + 1 < map.cols) line += " ";
    }
    const std::string number = fmt::format("{:>3} ", a * map.zoom);
    lines.push_back((here ? s.style().in("1;33", number) : s.style().dim(number)) + line);
    for (int more = 1; more < side; ++more) lines.push_back(std::string(label, ' ') + line);
  }
  const auto entry = [&](Mark m, const char* what) { return colored(s.style(), m, sign(m, unicode)) + what; };
  const char* gap = p.masked() ? " " : "  ";
  std::string legend =
      entry(Mark::done, " done") + gap + entry(Mark::current, " now") + gap + entry(Mark::not_yet, " later");
  if (p.masked()) legend += gap + entry(Mark::hidden, " masked");
  lines.push_back(map.zoom > 1
                      ? s.style().dim(with_signs(fmt::format("one mark: {0} x {0} tiles", map.zoom), unicode))
                      : legend);
  return lines;
}

}  // namespace flashsim::cli

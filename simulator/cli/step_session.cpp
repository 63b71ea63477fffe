#include "simulator/cli/step_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "simulator/cli/errors.h"
#include "simulator/cli/parse.h"

namespace flashsim::cli {
namespace {

constexpr std::string_view keys_help =
    R"(  n, space, right, down    next step             g, home    first step
  b, left, up              one step back         G, end     last step
  page down, page up       ten steps on, back    s          step by its number
  j    jump to a tile of S: type i,j (or i alone: its first tile), then enter
  r    rows of Q whose m and l are shown: 0,17 or 64-67; nothing: automatic
  t    to the backward pass, and back            ?  this page       q  quit
)";
constexpr std::string_view tiles_help =
    "Q, K, V and O are cut into tiles. Tile (i, j) of S = Q K^T needs tile i of Q and tile j of K and V. The "
    "map shows which tiles of S are done. None is ever kept: m, the largest score a row has seen, and l, the "
    "sum of exp(score - m), are all that softmax needs to know of the past. When m grows, l and O are "
    "multiplied by the correction exp(m_before - m).";
constexpr std::string_view bytes_help =
    "SRAM is the memory on chip: what the tiles take when the step needs most. Requested bytes are what "
    "thread blocks load from and store to the memory off chip, before any cache. \"standard\" is attention "
    "that writes S and P there, cut into the same tiles. The oracle is naive attention in float64.";

/// Within 80 x 24, or as many lines as narrower windows need.
std::string help(int columns, const Style& style, bool unicode) {
  const int width = std::min(columns, 80);
  const auto paragraph = [&](std::string_view text) {
    return wrapped(with_signs(std::string(text), unicode), width) + "\n\n";
  };
  std::string keys;
  for (std::size_t at = 0, end; at < keys_help.size(); at = end + 1) {
    end = keys_help.find('\n', at);
    const std::string_view line = keys_help.substr(at, end - at);
    keys += (display_width(line) > width ? wrapped(line, width) : std::string(line)) + "\n";
  }
  return style.bold("Keys") + "\n" + keys + "\n" + style.bold("What is shown") + "\n" +
         paragraph(tiles_help) + paragraph(bytes_help) + "Any key goes back to the step.";
}

int row_count(const Recording& r) {
  return r.packed ? r.problem.seqlen_q * r.problem.group() : r.problem.seqlen_q;
}

}  // namespace

std::size_t step_of_tile(const Recording& r, int i, int j, std::size_t from) {
  const std::size_t n = r.frames.size();
  const auto holds = [](const Block& b, int tile, int size) {
    return b.rows > 0 && tile >= b.begin / size && tile <= (b.end() - 1) / size;
  };
  for (std::size_t k = 0; k < n; ++k) {
    const StepPosition& at = r.frames[(from + k) % n].at;
    if (holds(at.rows, i, r.tiling.block_q) && (j < 0 || holds(at.cols, j, r.tiling.block_k)))
      return (from + k) % n;
  }
  return n;
}

std::vector<int> parse_rows(const std::string& text, int count) {
  std::vector<int> rows;
  for (const std::string& piece : parse_list("--rows", text)) {
    const std::size_t dash = piece.find('-', 1);
    const auto first = parse_integer("--rows", piece.substr(0, dash), 0, count - 1);
    const auto last =
        dash == std::string::npos ? first : parse_integer("--rows", piece.substr(dash + 1), first, count - 1);
    if (last - first > 1000)
      throw UsageError(fmt::format("--rows {} names more than a thousand rows", piece));
    for (auto row = first; row <= last; ++row) rows.push_back(static_cast<int>(row));
  }
  return rows;
}

std::pair<int, int> parse_tile(const std::string& text, const Recording& r) {
  const std::vector<std::string> parts = parse_list("--tile", text);
  if (parts.size() > 2)
    throw UsageError(
        fmt::format("--tile is '{}'; expected i,j: a tile of Q and a tile of K, e.g. 1,2", text));
  const auto i = parse_integer("--tile", parts[0], 0, r.tile_rows() - 1);
  const auto j = parts.size() == 1 ? -1 : parse_integer("--tile", parts[1], 0, r.tile_cols() - 1);
  return {static_cast<int>(i), static_cast<int>(j)};
}

StepSession::StepSession(StepPass pass, std::size_t frame, std::vector<int> rows,
                         std::function<StepPass()> other)
    : pass_(std::move(pass)), make_other_(std::move(other)), frame_(frame), rows_(std::move(rows)) {}

void StepSession::move(std::ptrdiff_t by) {
  const auto last = static_cast<std::ptrdiff_t>(pass_.recording.frames.size()) - 1;
  const auto wanted = static_cast<std::ptrdiff_t>(frame_) + by;
  if (wanted > last && frame_ == static_cast<std::size_t>(last)) message_ = "this is the last step";
  if (wanted < 0 && frame_ == 0) message_ = "this is the first step";
  frame_ = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(wanted, 0, last));
}

void StepSession::jump(const std::string& text) {
  const auto [i, j] = parse_tile(text, pass_.recording);
  const std::size_t found = step_of_tile(pass_.recording, i, j, frame_ + 1);
  if (found == pass_.recording.frames.size())
    message_ = j < 0 ? fmt::format("no tile of row {} is visited: the mask hides them", i)
                     : fmt::format("tile ({}, {}) is never visited: the mask hides it", i, j);
  else
    frame_ = found;
}

void StepSession::choose_rows(const std::string& text) {
  rows_ = text.empty() ? std::vector<int>() : parse_rows(text, row_count(pass_.recording));
}

void StepSession::toggle() {
  if (!has_other_) {
    other_ = make_other_();
    has_other_ = true;
  }
  std::swap(pass_, other_);
  std::swap(frame_, other_frame_);
}

void StepSession::answer() {
  const Asking what = std::exchange(asking_, Asking::nothing);
  const std::string text = std::exchange(typed_, {});
  try {
    if (what == Asking::rows) choose_rows(text);
    if (what == Asking::tile && !text.empty()) jump(text);
    if (what == Asking::step && !text.empty())
      frame_ = static_cast<std::size_t>(
          parse_integer("step", text, 1, static_cast<std::int64_t>(pass_.recording.frames.size())) - 1);
  } catch (const UsageError& e) {
    message_ = e.what();
  }
}

bool StepSession::press(KeyPress k) {
  message_.clear();
  if (k.key == Key::closed) return false;
  if (k.key == Key::resized) return true;
  if (asking_ == Asking::help) {
    asking_ = Asking::nothing;
    return !(k.key == Key::character && k.character == 'q');
  }
  if (asking_ != Asking::nothing) {
    if (k.key == Key::enter) answer();
    if (k.key == Key::escape) asking_ = Asking::nothing, typed_.clear();
    if (k.key == Key::backspace && !typed_.empty()) typed_.pop_back();
    if (k.key == Key::character && k.character != 0 && typed_.size() < 60) typed_ += k.character;
    return true;
  }
  switch (k.key) {
    case Key::right:
    case Key::down:
    case Key::enter: move(1); return true;
    case Key::left:
    case Key::up:
    case Key::backspace: move(-1); return true;
    case Key::page_down: move(10); return true;
    case Key::page_up: move(-10); return true;
    case Key::home: frame_ = 0; return true;
    case Key::end: frame_ = pass_.recording.frames.size() - 1; return true;
    default: break;
  }
  switch (k.character) {
    case 'n':
    case ' ': move(1); break;
    case 'b': move(-1); break;
    case 'g': frame_ = 0; break;
    case 'G': frame_ = pass_.recording.frames.size() - 1; break;
    case 'j': asking_ = Asking::tile; break;
    case 's': asking_ = Asking::step; break;
    case 'r': asking_ = Asking::rows; break;
    case 't': try { toggle();
      } catch (const std::exception& e) {
        message_ = e.what();
      }
      break;
    case '?':
    case 'h': asking_ = Asking::help; break;
    case 'q': return false;
    default: break;
  }
  return true;
}

/// What stands below the frame: a question, a message, or the keys.
std::string StepSession::footer(int columns, const Style& style) const {
  const Recording& r = pass_.recording;
  const auto question = [&](const std::string& text) {
    const auto room = static_cast<std::size_t>(std::max(1, columns - display_width(text) - 1));
    return style.bold(text) + typed_.substr(typed_.size() - std::min(typed_.size(), room)) +
           style.in("7", " ");
  };
  switch (asking_) {
    case Asking::tile:
      return question(
          fmt::format("tile i,j (i up to {}, j up to {}): ", r.tile_rows() - 1, r.tile_cols() - 1));
    case Asking::step: return question(fmt::format("step (1 to {}): ", r.frames.size()));
    case Asking::rows:
      return question(fmt::format("rows of Q (0 to {}; enter alone: automatic): ", row_count(r) - 1));
    default: break;
  }
  if (!message_.empty()) {
    std::string colored, text = wrapped(message_, columns);
    for (std::size_t at = 0, end; at <= text.size(); at = end + 1) {  // each line in a colour of its own
      end = std::min(text.find('\n', at), text.size());
      colored += (at > 0 ? "\n" : "") + style.in("33", text.substr(at, end - at));
    }
    return colored;
  }
  const auto key = [&](const char* name, const char* what) {
    return style.in("7", fmt::format(" {} ", name)) + " " + what + "  ";
  };
  return key("n", "next") + key("b", "back") + key("j", "jump") + key("r", "rows") +
         key("t", r.backward ? "forward" : "backward") + key("?", "help") + key("q", "quit");
}

std::string StepSession::screen(const TerminalSize& size, const Style& style, bool unicode) const {
  if (asking_ == Asking::help) return help(size.columns, style, unicode);
  StepView view;
  view.width = size.columns;
  view.height = std::max(10, size.rows - 1);
  view.unicode = unicode;
  view.style = style;
  view.rows = rows_;
  std::string text = render_frame(pass_.recording, pass_.title, frame_, view);
  // The last rows belong to the footer, whatever the frame's height.
  const std::string below = footer(size.columns, style);
  const int room = size.rows - 1 - static_cast<int>(std::count(below.begin(), below.end(), '\n'));
  int lines = 0;
  std::size_t end = 0;
  while (lines < room && end < text.size()) {
    end = text.find('\n', end) + 1;
    ++lines;
  }
  text.resize(end);
  text.append(static_cast<std::size_t>(std::max(0, room - lines)), '\n');
  return text + below;
}

void run_session(StepSession session, const Style& style, bool unicode) {
  Terminal terminal(STDIN_FILENO, STDOUT_FILENO);
  do {
    terminal.show(session.screen(terminal.size(), style, unicode));
  } while (session.press(terminal.read_key()));
}

}  // namespace flashsim::cli

#include "simulator/cli/lesson_screens.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "simulator/cli/errors.h"
#include "simulator/cli/table.h"
#include "simulator/user_schedule/subprocess.h"

namespace flashsim::cli {
namespace {

constexpr int widest = 100;  ///< longer lines are hard to read

std::string table_text(const course::Table& table, const Style& style, int width) {
  std::vector<Column> columns;
  for (const std::string& title : table.titles)
    columns.push_back(title.starts_with('<') ? Column{title.substr(1), Align::left} : Column{title});
  Table text(columns);
  for (const std::vector<std::string>& row : table.rows) text.row(row);
  return text.text(style, width, 2);
}

std::string piece_text(const course::Piece& piece, const course::Facts& facts, const Style& style,
                       int width) {
  using Kind = course::Piece::Kind;
  switch (piece.kind) {
    case Kind::paragraph: return wrapped(piece.text, std::min(width, widest)) + "\n";
    case Kind::item: return "- " + indented(wrapped(piece.text, std::min(width, widest) - 2), 2) + "\n";
    case Kind::verbatim: return style.cyan(piece.text) + "\n";
    case Kind::table: return table_text(facts.table(piece.text), style, width);
  }
  return {};
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    if (end > begin) words.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

CommandRun run_command(const std::string& line, int width) {
  std::vector<std::string> words = words_of(line);
  words.insert(words.begin(), {"/usr/bin/env", fmt::format("COLUMNS={}", width)});
  try {
    words[2] = std::filesystem::read_symlink("/proc/self/exe").string();
    Process process(words, std::filesystem::current_path(), {.processor_seconds = 60, .memory_bytes = 0});
    ProcessEnd end = process.wait(60);
    return {line, end.signal != 0 ? -1 : end.exit_code, std::move(end.output)};
  } catch (const std::system_error& error) {
    throw InputError(fmt::format("cannot run '{}': {}. Run it by hand", line, error.what()));
  }
}

std::string heading_of(const course::Lesson& lesson, const course::Script& script, std::size_t screen,
                       const Style& style) {
  const course::Screen& s = script.screens[screen];
  const std::string title = s.kind == course::ScreenKind::predict    ? "What do you expect?"
                            : s.kind == course::ScreenKind::run      ? "$ " + s.title
                            : s.kind == course::ScreenKind::remember ? "To remember"
                                                                     : s.title;
  return style.dim(fmt::format("Lesson {}, {}: {} of {}", lesson.number, script.title, screen + 1,
                               script.screens.size())) +
         "\n" + style.bold(title) + "\n\n";
}

std::string text_of(const course::Screen& screen, const course::Facts& facts, const Style& style, int width) {
  using Kind = course::Piece::Kind;
  std::string text;
  const course::Piece* before = nullptr;
  for (const course::Piece& piece : screen.pieces) {
    // Items stand close; everything else is apart.
    if (before != nullptr && !(before->kind == Kind::item && piece.kind == Kind::item)) text += "\n";
    text += piece_text(piece, facts, style, width);
    before = &piece;
  }
  return text;
}

}  // namespace flashsim::cli

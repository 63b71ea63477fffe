#include "lessons/course/script.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace flashsim::course {
namespace {

constexpr std::array<std::string_view, 5> kinds = {"text", "run", "predict", "explain", "remember"};

[[noreturn]] void fail(int line, const std::string& what) {
  throw std::invalid_argument(fmt::format("line {} of a lesson's text: {}", line, what));
}

Screen screen_of(std::string_view heading, int line) {
  const std::size_t space = std::min(heading.find(' '), heading.size());
  const std::string_view word = heading.substr(0, space);
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (kinds[k] == word) {
      Screen s;
      s.kind = static_cast<ScreenKind>(k);
      s.title = heading.substr(std::min(space + 1, heading.size()));
      if (s.title.empty() && s.kind != ScreenKind::remember)
        fail(line, fmt::format("'{}' needs a title", word));
      return s;
    }
  fail(line, fmt::format("expected text, run, predict, explain or remember after '==', got '{}'", word));
}

void add_line(Screen& screen, std::string_view line, bool after_gap) {
  using Kind = Piece::Kind;
  std::vector<Piece>& pieces = screen.pieces;
  if (line.starts_with("{table:") && line.ends_with("}")) {
    pieces.push_back({Kind::table, std::string(line.substr(7, line.size() - 8))});
  } else if (line.starts_with("- ")) {
    pieces.push_back({Kind::item, std::string(line.substr(2))});
  } else if (line.starts_with("  ") && !pieces.empty() && pieces.back().kind == Kind::item && !after_gap) {
    pieces.back().text += " " + std::string(line.substr(2));
  } else if (line.starts_with("  ")) {
    if (pieces.empty() || pieces.back().kind != Kind::verbatim || after_gap) {
      pieces.push_back({Kind::verbatim, std::string(line)});
    } else {
      pieces.back().text += "\n" + std::string(line);
    }
  } else if (pieces.empty() || pieces.back().kind != Kind::paragraph || after_gap) {
    pieces.push_back({Kind::paragraph, std::string(line)});
  } else {
    pieces.back().text += " " + std::string(line);
  }
}

void read_key(Script& script, std::string_view line, int number) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) fail(number, "expected 'key: value' before the first '=='");
  const std::string_view key = line.substr(0, colon);
  const std::string value(line.substr(colon + 2));
  if (key == "title") {
    script.title = value;
  } else if (key == "idea") {
    script.idea = value;
  } else if (key == "minutes") {
    script.minutes = std::stoi(value);
  } else {
    fail(number, fmt::format("'{}' is not title, idea or minutes", key));
  }
}

/// {name}: lower-case letters, digits and underscores. Other braces stay.
std::string filled_text(const std::string& text, const Facts& facts) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t end = i + 1;
    while (end < text.size() &&
           (std::islower(static_cast<unsigned char>(text[end])) != 0 ||
            std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
      ++end;
    if (text[i] == '{' && end > i + 1 && end < text.size() && text[end] == '}') {
      out += facts.text(text.substr(i + 1, end - i - 1));
      i = end;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string_view name_of(ScreenKind kind) { return kinds[static_cast<std::size_t>(kind)]; }

Script parse_script(std::string_view text) {
  Script script;
  bool after_gap = true;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) {
      after_gap = true;
      continue;
    }
    if (line.starts_with("== ")) {
      script.screens.push_back(screen_of(line.substr(3), number));
      after_gap = true;
    } else if (script.screens.empty()) {
      read_key(script, line, number);
    } else {
      add_line(script.screens.back(), line, after_gap);
      after_gap = false;
    }
  }
  if (script.title.empty() || script.idea.empty() || script.minutes <= 0 || script.screens.empty())
    throw std::invalid_argument("a lesson's text needs title, idea, minutes and at least one screen");
  return script;
}

Script filled(const Script& script, const Facts& facts) {
  Script out = script;
  for (Screen& screen : out.screens) {
    if (screen.kind != ScreenKind::predict) screen.title = filled_text(screen.title, facts);
    for (Piece& piece : screen.pieces) {
      if (piece.kind == Piece::Kind::table) {
        facts.table(piece.text);
      } else {
        piece.text = filled_text(piece.text, facts);
      }
    }
    if (screen.kind == ScreenKind::predict) facts.answer(screen.title);
  }
  return out;
}

}  // namespace flashsim::course

// The text of a lesson: screens with gaps for what the lesson's run found out.
//
// A file in lessons/text begins with lines "key: value" (title, minutes, idea) and then has screens, each
// opened by one of
//   == text TITLE            something to read
//   == run COMMAND           a flashsim command, run when the reader gets there; the text stands above its
//   output
//   == predict ID            a question with a number for an answer
//   == explain TITLE         what the number was and why; shown after the prediction
//   == remember              what to take home
// Within a screen, {name} is replaced by what the lesson found out, {table:name} alone on a line by a table.
// Lines of a paragraph are joined and wrapped; lines that begin with "- " are items; lines indented by two
// spaces stay as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lessons/course/facts.h"

namespace flashsim::course {

enum class ScreenKind : std::uint8_t { text, run, predict, explain, remember };
std::string_view name_of(ScreenKind kind);

struct Piece {
  enum class Kind : std::uint8_t { paragraph, item, verbatim, table } kind = Kind::paragraph;
  std::string text;  ///< of a table: its name
};

struct Screen {
  ScreenKind kind = ScreenKind::text;
  std::string title;  ///< of predict: the question's id; of run: the command line
  std::vector<Piece> pieces;
};

struct Script {
  std::string title, idea;
  int minutes = 0;
  std::vector<Screen> screens;
};

/// Throws std::invalid_argument with the line where the text does not follow the rules above.
Script parse_script(std::string_view text);

/// The script with its gaps filled. Throws std::out_of_range where the facts lack something.
Script filled(const Script& script, const Facts& facts);

}  // namespace flashsim::course

// Screens of lessons as text, the same on a terminal and in a pipe.
#pragma once

#include <string>
#include <vector>

#include "lessons/course/lesson.h"
#include "simulator/cli/style.h"

namespace flashsim::cli {

/// What a command line that a lesson quotes did.
struct CommandRun {
  std::string line;
  int exit_code = 0;
  std::string output;
};

/// Runs a command line that begins with "flashsim" with this very executable, in a terminal of `width`
/// columns without colours, for at most a minute. Throws InputError where it cannot start.
CommandRun run_command(const std::string& line, int width);

/// "Lesson 3: Tiles that fit on chip (2 of 9)".
std::string heading_of(const course::Lesson& lesson, const course::Script& script, std::size_t screen,
                       const Style& style);

/// The pieces of a screen, wrapped, without its heading. Ends with a newline.
std::string text_of(const course::Screen& screen, const course::Facts& facts, const Style& style, int width);

}  // namespace flashsim::cli

// One run of a lesson: screens, commands, predictions and what became of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lessons/course/lesson.h"
#include "simulator/cli/json.h"
#include "simulator/cli/lesson_screens.h"
#include "simulator/cli/output.h"

namespace flashsim::cli {

struct Prediction {
  std::string id;
  std::optional<double> given;
  bool right = false;
};

struct LessonRun {
  std::vector<Prediction> predictions;
  std::vector<CommandRun> commands;
  std::optional<std::size_t> left_at;  ///< the screen on which the reader quit

  bool all_right() const;
};

/// Gives the reader's next answer as text, or nothing where there is none (any more).
using AnswerSource = std::function<std::optional<std::string>(const std::string& prompt)>;

/// Shows every screen beginning with screen `from`. On a terminal (`paged`) one at a time, with Enter to go
/// on, b to go back and q to quit; wrong predictions may be tried again. Else all in a row.
LessonRun show_session(const course::Lesson& lesson, const course::Session& session,
                       const AnswerSource& answers, bool paged, std::size_t from, Output& out);

/// The same without text: runs the commands and checks the answers, for --json.
LessonRun check_session(const course::Session& session, const AnswerSource& answers, int width);

Json json_of(const course::Lesson& lesson, const course::Settings& settings, const course::Session& session,
             const LessonRun& run);

}  // namespace flashsim::cli

#include "simulator/cli/lesson_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "simulator/cli/errors.h"

namespace flashsim::cli {
namespace {

using course::ScreenKind;

/// What a person types: "72", "72 KiB" and "1,048,576" are all numbers.
std::optional<double> number_in(std::string text) {
  std::erase(text, ',');
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return std::nullopt;
  try {
    return std::stod(text.substr(begin));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// An answer that was meant to be skipped: an empty line, or "?".
bool is_skip(const std::string& text) { return text.find_first_not_of(" \t\r?-") == std::string::npos; }

Prediction ask(const std::string& id, const course::Answer& answer, const AnswerSource& answers, bool again,
               Output* out) {
  Prediction p{id, {}, false};
  const std::string unit = answer.unit.empty() ? "" : fmt::format(" ({})", answer.unit);
  for (int tries = again ? 3 : 1; tries > 0; --tries) {
    const std::optional<std::string> text = answers(fmt::format("Your prediction{}: ", unit));
    if (!text || is_skip(*text)) break;
    p.given = number_in(*text);
    if (!p.given) {
      if (!again)
        throw UsageError(
            fmt::format("'{}' is not a number; answer with one, or leave it empty to skip", *text));
      out->print("That is not a number. Type one, or only Enter to see the answer.\n");
      ++tries;
      continue;
    }
    p.right = answer.accepts(*p.given);
    if (p.right || tries == 1) break;
    out->print(fmt::format("{} is too {}. Try again, or only Enter to see the answer.\n", *p.given,
                           *p.given > answer.value ? "much" : "little"));
  }
  return p;
}

std::string verdict(const Prediction& p, const course::Answer& answer, const Style& style) {
  const std::string near =
      answer.tolerance > 0 ? fmt::format(" ({:.0f} % more or less is right)", 100 * answer.tolerance) : "";
  const std::string value = answer.shown + (answer.unit.empty() ? "" : " " + answer.unit);
  if (!p.given) return fmt::format("The answer: {}\n", value);
  if (p.right) return fmt::format("{} It is {}.\n", style.green("Right."), value);
  return fmt::format("{} It is {}{}.\n", style.red(fmt::format("Not {:g}.", *p.given)), value, near);
}

/// Prints as much as a screen holds, and asks before the rest.
bool print_paged(const std::string& text, int rows, const AnswerSource& answers, Output& out) {
  std::size_t begin = 0;
  int printed = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (printed == rows) {
      const std::optional<std::string> key = answers(out.style().dim("Enter shows the rest: "));
      if (!key) return false;
      printed = 0;
    }
    out.print(text.substr(begin, end - begin));
    begin = end;
    ++printed;
  }
  return true;
}

std::string command_text(const CommandRun& run, const Style& style) {
  std::string text = run.output;
  if (!text.empty() && text.back() != '\n') text += "\n";
  if (run.exit_code != 0) text += style.red(fmt::format("(exit code {})", run.exit_code)) + "\n";
  return text;
}

}  // namespace

bool LessonRun::all_right() const {
  return std::all_of(predictions.begin(), predictions.end(), [](const Prediction& p) { return p.right; });
}

LessonRun show_session(const course::Lesson& lesson, const course::Session& session,
                       const AnswerSource& answers, bool paged, Output& out) {
  const std::vector<course::Screen>& screens = session.script.screens;
  LessonRun run;
  std::vector<bool> visited(screens.size());
  for (std::size_t i = 0; i < screens.size();) {
    const course::Screen& screen = screens[i];
    std::string text = heading_of(lesson, session.script, i, out.style()) +
                       text_of(screen, session.facts, out.style(), out.width());
    if (screen.kind == ScreenKind::run) {
      CommandRun command = run_command(screen.title, out.width());
      text += "\n" + command_text(command, out.style());
      if (!visited[i]) run.commands.push_back(std::move(command));
    }
    if (paged) {
      out.print("\x1b[2J\x1b[H");
      if (!print_paged(text, rows_of(STDOUT_FILENO) - 3, answers, out)) break;
    } else {
      out.print(text);
    }
    if (screen.kind == ScreenKind::predict) {
      out.print("\n");
      const course::Answer& answer = session.facts.answer(screen.title);
      Prediction p = ask(screen.title, answer, answers, paged, &out);
      out.print(verdict(p, answer, out.style()));
      if (!visited[i]) run.predictions.push_back(std::move(p));
    }
    visited[i] = true;
    if (!paged) {
      out.print("\n");
      ++i;
      continue;
    }
    const bool last = i + 1 == screens.size();
    const std::optional<std::string> key = answers(out.style().dim(
        last ? "\nEnter ends the lesson, b goes back: " : "\nEnter goes on, b goes back, q quits: "));
    if (!key || *key == "q") break;
    if (*key == "b") {
      i -= i > 0 ? 1 : 0;
    } else {
      ++i;
    }
  }
  return run;
}

LessonRun check_session(const course::Session& session, const AnswerSource& answers, int width) {
  LessonRun run;
  for (const course::Screen& screen : session.script.screens) {
    if (screen.kind == ScreenKind::run) run.commands.push_back(run_command(screen.title, width));
    if (screen.kind == ScreenKind::predict)
      run.predictions.push_back(
          ask(screen.title, session.facts.answer(screen.title), answers, false, nullptr));
  }
  return run;
}

Json json_of(const course::Lesson& lesson, const course::Settings& settings, const course::Session& session,
             const LessonRun& run) {
  Json document = json_document("lesson");
  document["lesson"] = lesson.number;
  document["title"] = session.script.title;
  for (const course::Use& use : lesson.uses)
    document["settings"][use.name] = course::shown(settings, use.name);
  document["numbers"] = Json::object();
  for (const auto& [name, value] : session.facts.values()) document["numbers"][name] = value;
  document["questions"] = Json::array();
  for (const Prediction& p : run.predictions) {
    const course::Answer& answer = session.facts.answer(p.id);
    document["questions"].push_back({{"id", p.id},
                                     {"unit", answer.unit},
                                     {"prediction", p.given ? Json(*p.given) : Json()},
                                     {"right", p.right},
                                     {"answer", answer.value},
                                     {"tolerance", answer.tolerance}});
  }
  document["commands"] = Json::array();
  for (const CommandRun& c : run.commands)
    document["commands"].push_back({{"command", c.line}, {"exit_code", c.exit_code}, {"output", c.output}});
  return document;
}

}  // namespace flashsim::cli

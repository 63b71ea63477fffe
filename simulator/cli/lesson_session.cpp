#include "simulator/cli/lesson_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "simulator/cli/errors.h"
#include "simulator/cli/lesson_answer.h"

namespace flashsim::cli {
namespace {

using course::ScreenKind;

std::string prompt_of(const course::Answer& answer) {
  return fmt::format("Your prediction{}: ", answer.unit.empty() ? "" : fmt::format(" ({})", answer.unit));
}

/// The prediction where nobody can be asked again. Throws UsageError where it is not a number.
Prediction read_prediction(const std::string& id, const course::Answer& answer, const AnswerSource& answers) {
  Prediction p{id, {}, false};
  const std::optional<std::string> text = answers(prompt_of(answer));
  if (!text || is_skip(*text)) return p;
  const TypedNumber typed = typed_number(*text, answer.unit);
  if (!typed.value)
    throw UsageError(fmt::format("prediction '{}': {} Leave it empty to skip", *text, typed.fault));
  p.given = typed.value;
  p.right = answer.accepts(*p.given);
  return p;
}

/// Asks a reader until the prediction is right, three are wrong, or the reader skips it or goes elsewhere.
PageTurn ask(Prediction& p, const course::Answer& answer, const AnswerSource& answers, Output& out) {
  for (int wrong = 0; wrong < 3;) {
    const std::optional<std::string> text = answers(prompt_of(answer));
    if (!text) return PageTurn::quit;
    if (is_skip(*text)) return PageTurn::on;
    if (const std::optional<PageTurn> turn = typed_turn(*text)) return *turn;
    const TypedNumber typed = typed_number(*text, answer.unit);
    if (!typed.value) {
      out.print(typed.fault + " Enter alone shows the answer.\n");
      continue;
    }
    p.given = typed.value;
    p.right = answer.accepts(*p.given);
    if (p.right) break;
    if (++wrong < 3)
      out.print(fmt::format("{:g} is too {}. Try again; Enter alone shows the answer.\n", *p.given,
                            *p.given > answer.value ? "much" : "little"));
  }
  return PageTurn::on;
}

std::string verdict(const Prediction& p, const course::Answer& answer, const Style& style) {
  const std::string near =
      answer.tolerance > 0 ? fmt::format(" ({:.0f} % more or less is right)", 100 * answer.tolerance) : "";
  const std::string value = answer.shown + (answer.unit.empty() ? "" : " " + answer.unit);
  if (!p.given) return fmt::format("The answer: {}\n", value);
  if (p.right) return fmt::format("{} It is {}.\n", style.green("Right."), value);
  return fmt::format("{} It is {}{}.\n", style.red(fmt::format("Not {:g}.", *p.given)), value, near);
}

/// Asks where to go until the reader says.
PageTurn ask_turn(const std::string& prompt, const AnswerSource& answers, Output& out) {
  for (;;) {
    const std::optional<std::string> text = answers(out.style().dim(prompt));
    if (!text) return PageTurn::quit;
    if (const std::optional<PageTurn> turn = typed_turn(*text)) return *turn;
    out.print("Press Enter, or type b or q before it.\n");
  }
}

/// Prints as much as a screen holds, and asks before the rest.
PageTurn print_paged(const std::string& text, int rows, const AnswerSource& answers, Output& out) {
  std::size_t begin = 0;
  int printed = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (printed == rows) {
      const PageTurn turn = ask_turn("Enter shows the rest, b goes back, q quits: ", answers, out);
      if (turn != PageTurn::on) return turn;
      printed = 0;
    }
    out.print(text.substr(begin, end - begin));
    begin = end;
    ++printed;
  }
  return PageTurn::on;
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
                       const AnswerSource& answers, bool paged, std::size_t from, Output& out) {
  const std::vector<course::Screen>& screens = session.script.screens;
  LessonRun run;
  std::vector<bool> done(screens.size());
  for (std::size_t i = from; i < screens.size();) {
    const course::Screen& screen = screens[i];
    std::string text = heading_of(lesson, session.script, i, out.style()) +
                       text_of(screen, session.facts, out.style(), out.width());
    if (screen.kind == ScreenKind::run) {
      CommandRun command = run_command(screen.title, out.width());
      text += "\n" + command_text(command, out.style());
      if (!done[i]) run.commands.push_back(std::move(command));
      done[i] = true;
    }
    PageTurn turn = PageTurn::on;
    if (paged) {
      out.print("\x1b[2J\x1b[H");
      turn = print_paged(text, rows_of(STDOUT_FILENO) - 3, answers, out);
    } else {
      out.print(text);
    }
    if (screen.kind == ScreenKind::predict && turn == PageTurn::on) {
      out.print("\n");
      const course::Answer& answer = session.facts.answer(screen.title);
      Prediction p{screen.title, {}, false};
      if (paged)
        turn = ask(p, answer, answers, out);
      else
        p = read_prediction(screen.title, answer, answers);
      if (turn == PageTurn::on) {
        out.print(verdict(p, answer, out.style()));
        if (!done[i]) run.predictions.push_back(std::move(p));
        done[i] = true;
      }
    }
    if (!paged) {
      out.print("\n");
      ++i;
      continue;
    }
    const bool last = i + 1 == screens.size();
    if (turn == PageTurn::on)
      turn = ask_turn(
          last ? "\nEnter ends the lesson, b goes back: " : "\nEnter goes on, b goes back, q quits: ",
          answers, out);
    if (turn == PageTurn::quit) {
      if (!last) run.left_at = i;
      break;
    }
    if (turn == PageTurn::back)
      i -= i > 0 ? 1 : 0;
    else
      ++i;
  }
  return run;
}

LessonRun check_session(const course::Session& session, const AnswerSource& answers, int width) {
  LessonRun run;
  for (const course::Screen& screen : session.script.screens) {
    if (screen.kind == ScreenKind::run) run.commands.push_back(run_command(screen.title, width));
    if (screen.kind == ScreenKind::predict)
      run.predictions.push_back(read_prediction(screen.title, session.facts.answer(screen.title), answers));
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

// flashsim lesson: the course.
#include "lessons/course/lesson.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>

#include "simulator/cli/commands.h"
#include "simulator/cli/json.h"
#include "simulator/cli/lesson_session.h"
#include "simulator/cli/picture.h"
#include "simulator/cli/table.h"
#include "simulator/cli/traffic_options.h"
#include "simulator/report/svg.h"

namespace flashsim::cli {
namespace {

struct LessonOptions {
  std::string action = "list";
  std::optional<int> number;
  course::Settings wish;
  std::set<std::string> given;  ///< names of the settings that were asked for
  std::optional<std::vector<std::string>> answers;
  bool strict = false;
  int from = 1;                              ///< of run: the first screen
  std::string folder = ".", format = "svg";  ///< of export

  void declare(Options& o);
  const course::Lesson& lesson() const;
  course::Settings settings() const;
};

void LessonOptions::declare(Options& o) {
  o.positional("ACTION",
               "list (the default), show, run, export or questions; a number alone runs that lesson",
               [this](const std::string& text) {
                 if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
                   action = "run";
                   number = static_cast<int>(parse_integer("lesson", text, 1, 1000));
                 } else {
                   const std::vector<std::string> actions = {"list", "show", "run", "export", "questions"};
                   action = actions[parse_choice("lesson", text, actions)];
                 }
               });
  o.positional("NUMBER", "which lesson", [this](const std::string& text) {
    number = static_cast<int>(parse_integer("lesson", text, 1, 1000));
  });
  o.heading("Predictions");
  o.value("--answer", "X[,X...]", "the predictions, in the order of the questions; - skips one",
          [this](const std::string& text) { answers = parse_list("--answer", text); });
  o.flag("--strict", strict, "end with exit code 1 where a prediction is wrong or missing");
  o.integer("--from", from, 1, 1000, "begin with this screen: where you left off");
  o.heading("Export: the lesson's charts, for slides");
  o.text("--to", "DIR", folder, "folder to write to (default: this one)");
  o.choice("--format", format,
           std::vector<std::pair<std::string, std::string>>{{"svg", "svg"}, {"png", "png"}, {"csv", "csv"}},
           "svg (the default), png (needs rsvg-convert), or csv: the numbers of charts and tables");
  o.heading("What a lesson is about; flashsim lesson list says which lesson uses what");
  const auto whole = [&](const std::string& names, auto& into, std::int64_t max, const std::string& help) {
    o.value(names, "N", help, [this, &into, max, names](const std::string& text) {
      const std::string name = names.substr(names.rfind("--") + 2);
      into = static_cast<std::remove_reference_t<decltype(into)>>(parse_integer("--" + name, text, 1, max));
      given.insert(name);
    });
  };
  constexpr std::int64_t large = std::int64_t{1} << 30;
  o.value("--gpu", "NAME", "the card; flashsim gpus lists them", [this](const std::string& text) {
    wish.gpu = gpu_named(text);
    given.insert("gpu");
  });
  whole("-n,--n", wish.n, large, "queries and keys");
  whole("-d,--d", wish.d, large, "head dimension");
  whole("--heads", wish.heads, large, "heads, over the whole batch");
  whole("--block", wish.block, large, "rows of a tile");
  whole("--bytes", wish.bytes, std::int64_t{1} << 50, "how much is read");
  whole("--chunk", wish.chunk, large, "scores that come in at a time");
  o.value("--scores", "X,X,...", "the scores of a row", [this](const std::string& text) {
    wish.scores = parse_numbers("--scores", text);
    given.insert("scores");
  });
  o.value("--seed", "N", "seed of random inputs", [this](const std::string& text) {
    wish.seed = static_cast<std::uint64_t>(parse_integer("--seed", text, 0, std::int64_t{1} << 62));
    given.insert("seed");
  });
}

const course::Lesson& LessonOptions::lesson() const {
  const auto last = course::lessons().back().number;
  if (!number)
    throw UsageError(fmt::format("say which lesson, e.g. flashsim lesson {} 1; there are {}", action, last));
  const course::Lesson* lesson = course::find_lesson(*number);
  if (lesson == nullptr)
    throw UsageError(fmt::format("there is no lesson {}; expected 1 to {}", *number, last));
  return *lesson;
}

std::string uses_of(const course::Lesson& lesson, const char* between = ", ") {
  std::string all;
  for (const course::Use& use : lesson.uses) all += (all.empty() ? "" : between) + ("--" + use.name);
  return all.empty() ? "none" : all;
}

void require_range(const course::Use& use, std::int64_t value) {
  if (value < use.min || value > use.max)
    throw UsageError(
        fmt::format("--{} is {}; in this lesson expected {} to {}", use.name, value, use.min, use.max));
}

course::Settings LessonOptions::settings() const {
  course::Settings s = lesson().defaults;
  for (const std::string& name : given) {
    const auto use = std::find_if(lesson().uses.begin(), lesson().uses.end(),
                                  [&](const course::Use& u) { return u.name == name; });
    if (use == lesson().uses.end())
      throw UsageError(
          fmt::format("lesson {} does not use --{}; it takes {}", lesson().number, name, uses_of(lesson())));
    if (name == "gpu") s.gpu = wish.gpu;
    if (name == "scores") s.scores = wish.scores;
    if (name == "seed") s.seed = wish.seed;
    if (name == "n") require_range(*use, s.n = wish.n);
    if (name == "d") require_range(*use, s.d = wish.d);
    if (name == "heads") require_range(*use, s.heads = wish.heads);
    if (name == "block") require_range(*use, s.block = wish.block);
    if (name == "chunk") require_range(*use, s.chunk = wish.chunk);
    if (name == "bytes") require_range(*use, s.bytes = wish.bytes);
  }
  return s;
}

// ------------------------------------------------------------------------------------------------ actions

void list_lessons(Output& out) {
  if (out.json()) {
    Json document = json_document("lesson");
    for (const course::Lesson& lesson : course::lessons()) {
      const course::Script script = course::script_of(lesson);
      Json uses = Json::object();
      for (const course::Use& use : lesson.uses) uses[use.name] = course::shown(lesson.defaults, use.name);
      document["lessons"].push_back({{"number", lesson.number},
                                     {"title", script.title},
                                     {"idea", script.idea},
                                     {"minutes", script.minutes},
                                     {"settings", uses}});
    }
    return print_json(out, document);
  }
  int minutes = 0;
  for (const course::Lesson& lesson : course::lessons()) {
    const course::Script script = course::script_of(lesson);
    minutes += script.minutes;
    out.print(fmt::format("{:>2}  {}  {}\n", lesson.number,
                          out.style().bold(fmt::format("{:<33}", script.title)),
                          out.style().dim(fmt::format("{} min  {}", script.minutes, uses_of(lesson, " ")))));
  }
  out.print(fmt::format("\n{} lessons, about {:.1f} hours. Begin with: flashsim lesson run 1\n",
                        course::lessons().size(), minutes / 60.0));
}

void print_questions(Output& out) {
  if (out.json()) {
    Json document = json_document("lesson");
    for (const course::AskedQuestion& q : course::asked_questions())
      document["questions"].push_back({{"where", q.where},
                                       {"question", q.question},
                                       {"lesson", q.lesson},
                                       {"answered_by", q.answered_by}});
    return print_json(out, document);
  }
  Table table({{"what people ask", Align::left},
               {"lesson"},
               {"on the screen", Align::left, 2},
               {"asked in", Align::left, 1}});
  for (const course::AskedQuestion& q : course::asked_questions())
    table.row({q.question, std::to_string(q.lesson), q.answered_by, q.where});
  out.print(table.text(out.style(), out.width()));
}

/// The text with its questions and commands, but neither answers nor explanations.
void show_lesson(const LessonOptions& o, Output& out) {
  const course::Lesson& lesson = o.lesson();
  const course::Session session = course::run_lesson(lesson, o.settings());
  for (std::size_t i = 0; i < session.script.screens.size(); ++i) {
    const course::Screen& screen = session.script.screens[i];
    if (screen.kind == course::ScreenKind::explain || screen.kind == course::ScreenKind::remember) continue;
    out.print(heading_of(lesson, session.script, i, out.style()));
    out.print(text_of(screen, session.facts, out.style(), out.width()) + "\n");
  }
  out.print(fmt::format("Answers and explanations: flashsim lesson run {}\n", lesson.number));
}

void export_lesson(const LessonOptions& o, Output& out) {
  const course::Lesson& lesson = o.lesson();
  const course::Session session = course::run_lesson(lesson, o.settings());
  const auto path = [&](const std::string& id) {
    return (std::filesystem::path(o.folder) / fmt::format("lesson_{:02}_{}.{}", lesson.number, id, o.format))
        .string();
  };
  std::vector<std::string> written;
  for (const Chart& chart : session.facts.charts()) {
    written.push_back(path(chart.id));
    write_chart(chart, written.back());
  }
  if (o.format == "csv")
    for (const auto& [name, table] : session.facts.tables()) {
      std::vector<std::string> titles;
      for (const std::string& t : table.titles) titles.push_back(t.substr(t.starts_with('<') ? 1 : 0));
      std::string text = csv_line(titles);
      for (const std::vector<std::string>& row : table.rows) text += csv_line(row);
      written.push_back(path("table_" + name));
      AtomicFile file(written.back());
      file.write(text);
      file.commit();
    }
  if (out.json()) {
    Json document = json_document("lesson");
    document["files"] = written;
    return print_json(out, document);
  }
  for (const std::string& file : written) out.print(file + "\n");
}

AnswerSource answers_of(const LessonOptions& o, Output& out) {
  if (o.answers) {
    auto next = std::make_shared<std::size_t>(0);
    return [&o, next](const std::string&) -> std::optional<std::string> {
      if (*next >= o.answers->size()) return std::nullopt;
      return (*o.answers)[(*next)++];
    };
  }
  return [&out](const std::string& prompt) -> std::optional<std::string> {
    if (!out.json()) out.print(prompt);
    std::string line;
    if (!std::getline(std::cin, line)) {
      if (!out.json()) out.print("\n");
      return std::nullopt;
    }
    return line;
  };
}

/// The command that goes on where the reader left.
std::string resume_command(const LessonOptions& o, const course::Settings& settings, std::size_t screen) {
  std::string line = fmt::format("flashsim lesson run {} --from {}", o.lesson().number, screen + 1);
  for (const std::string& name : o.given)
    line += fmt::format(" --{} {}", name, course::shown(settings, name));
  return line;
}

ExitCode run_lesson(const LessonOptions& o, Output& out) {
  const course::Lesson& lesson = o.lesson();
  const course::Settings settings = o.settings();
  const course::Session session = course::run_lesson(lesson, settings);
  const AnswerSource answers = answers_of(o, out);
  if (const auto screens = session.script.screens.size(); static_cast<std::size_t>(o.from) > screens)
    throw UsageError(
        fmt::format("--from is {}; lesson {} has screens 1 to {}", o.from, lesson.number, screens));
  if (out.json() && o.from > 1) throw UsageError("--from is for reading; --json is about the whole lesson");
  LessonRun run;
  if (out.json()) {
    run = check_session(session, answers, out.width());
    print_json(out, json_of(lesson, settings, session, run));
  } else {
    run = show_session(lesson, session, answers, out.interactive() && !o.answers,
                       static_cast<std::size_t>(o.from - 1), out);
    if (run.left_at) out.print("\nTo go on: " + resume_command(o, settings, *run.left_at) + "\n");
  }
  if (o.answers && o.answers->size() > run.predictions.size())
    throw UsageError(fmt::format("--answer gives {} predictions; lesson {} asks {}", o.answers->size(),
                                 lesson.number, run.predictions.size()));
  return o.strict && !run.all_right() ? ExitCode::check_failed : ExitCode::ok;
}

}  // namespace

Command lesson_command() {
  return {"lesson",
          "the course: read, predict, run, explain",
          {"flashsim lesson list", "flashsim lesson run 1", "flashsim lesson run 3 --block 128 --gpu h100",
           "flashsim lesson run 3 --answer 72,144,192 --strict", "flashsim lesson questions",
           "flashsim lesson export 2 --to /tmp --format csv"},
          "A lesson shows a screen at a time, asks for a prediction, runs the simulator and compares. Every "
          "number in it comes from that run. Without a terminal, predictions are read from --answer or, a "
          "line each, from the standard input.",
          [](Options& options) -> Run {
            auto o = std::make_shared<LessonOptions>();
            o->declare(options);
            return [o](Output& out) {
              if (o->action == "list") {
                list_lessons(out);
              } else if (o->action == "questions") {
                print_questions(out);
              } else if (o->action == "export") {
                export_lesson(*o, out);
              } else if (o->action == "show") {
                show_lesson(*o, out);
              } else {
                return run_lesson(*o, out);
              }
              return ExitCode::ok;
            };
          }};
}

}  // namespace flashsim::cli

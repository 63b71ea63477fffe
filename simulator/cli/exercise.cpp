// flashsim exercise: skeletons, checks and hints for students.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "simulator/cli/commands.h"
#include "simulator/cli/exercise_options.h"
#include "simulator/cli/grade_report.h"

namespace flashsim::cli {
namespace fs = std::filesystem;
using lessons::Exercise;

const Exercise& exercise_named(const std::string& text) {
  const int count = static_cast<int>(lessons::exercises().size());
  return *lessons::find_exercise(static_cast<int>(parse_integer("exercise", text, 1, count)));
}

std::vector<const Exercise*> exercises_named(const std::string& list) {
  std::vector<const Exercise*> all;
  for (const std::string& piece : parse_list("--exercises", list)) {
    const std::size_t dash = piece.find('-', 1);
    const int first = exercise_named(piece.substr(0, dash)).number;
    const int last = dash == std::string::npos ? first : exercise_named(piece.substr(dash + 1)).number;
    if (last < first)
      throw UsageError("--exercises " + piece + " runs backwards; give the smaller number first");
    for (int n = first; n <= last; ++n) all.push_back(lessons::find_exercise(n));
  }
  return all;
}

namespace {

const char* kind_of(const Exercise& e) {
  switch (e.kind) {
    case lessons::Kind::schedule: return "schedule";
    case lessons::Kind::cuda: return "CUDA";
    default: return "function";
  }
}

struct ExerciseCommand {
  std::vector<std::string> words;
  std::string chosen;  ///< --exercise
  int level = 0;

  const std::string& word(std::size_t i, const char* what) const {
    if (i >= words.size())
      throw UsageError(
          fmt::format("flashsim exercise {} needs {}. See flashsim exercise --help", words[0], what));
    return words[i];
  }
  fs::path folder(std::size_t i = 1) const { return word(i, "a folder"); }

  /// What --exercise names, or what is in the folder.
  std::vector<const Exercise*> selected(const fs::path& where) const {
    if (!chosen.empty()) return exercises_named(chosen);
    std::vector<const Exercise*> found = lessons::exercises_in(where);
    if (found.empty())
      throw UsageError(fmt::format("{} holds no exercise; begin with flashsim exercise start 1 {}",
                                   where.string(), where.string()));
    return found;
  }
  const Exercise& only(const fs::path& where) const {
    const std::vector<const Exercise*> found = selected(where);
    if (found.size() > 1)
      throw UsageError(
          fmt::format("{} holds {} exercises; say which with --exercise N", where.string(), found.size()));
    return *found.front();
  }

  static void list(Output& out) {
    if (out.json()) {
      Json document = json_document("exercise");
      for (const Exercise& e : lessons::exercises())
        document["exercises"].push_back({{"number", e.number},
                                         {"name", e.name},
                                         {"title", e.title},
                                         {"kind", kind_of(e)},
                                         {"hints", e.hints().size()}});
      return print_json(out, document);
    }
    for (const Exercise& e : lessons::exercises())
      out.print(fmt::format("{:>3}  {:<9} {}\n", e.number, kind_of(e), e.title));
    out.print("\nBegin with: flashsim exercise start 1 work\n");
  }

  void start(Output& out) const {
    const Exercise& e = exercise_named(word(1, "a number and a folder"));
    const fs::path where = word(2, "a folder");
    lessons::start_exercise(e, where);
    out.print(std::string(e.text()));
    out.print(fmt::format("\nYours to complete: {}\nThen: flashsim exercise check {} --exercise {}\n",
                          (where / e.file()).string(), where.string(), e.number));
  }

  bool check(Output& out) const {
    const fs::path where = folder();
    Submission s{where.string(), {}};
    lessons::GradeOptions own;
    own.open_files = true;  // whoever checks wrote it
    for (const Exercise* e : selected(where)) {
      s.grades.push_back(lessons::grade_exercise(*e, where, own));
      if (!out.json()) print_checks(s.grades.back(), out);
    }
    if (out.json()) print_json(out, json_of({s}, "none"));
    const auto open = std::find_if(s.grades.begin(), s.grades.end(), [](const lessons::ExerciseGrade& g) {
      return !g.passed() && g.skipped.empty();
    });
    if (!out.json() && open != s.grades.end())
      out.print(fmt::format("\nA hint: flashsim exercise hint {} --exercise {}\n", where.string(),
                            open->exercise->number));
    return s.passed();
  }

  void hint(Output& out) const {
    const fs::path where = folder();
    const Exercise& e = only(where);
    const std::vector<std::string> all = e.hints();
    const int count = static_cast<int>(all.size());
    const int n = level > 0 ? std::min(level, count) - 1 : lessons::take_hint(e, where);
    out.print(fmt::format("{}\n\n{}\n",
                          out.style().bold(fmt::format("Exercise {}, hint {} of {}", e.number, n + 1, count)),
                          wrapped(all[static_cast<std::size_t>(n)], std::min(out.width(), 100))));
  }

  void reset(Output& out) const {
    const fs::path where = folder();
    const Exercise& e = only(where);
    const std::string kept = lessons::reset_exercise(e, where);
    out.print(fmt::format("{} is the skeleton again{}\n", (where / e.file()).string(),
                          kept.empty() ? "" : "; yours is kept as " + kept));
  }

  /// Checks again whenever a file changes, until all pass.
  void watch(Output& out) const {
    const fs::path where = folder();
    const auto times = [&] {
      std::vector<fs::file_time_type> all;
      for (const Exercise* e : selected(where)) {
        std::error_code gone;
        all.push_back(fs::last_write_time(where / e->file(), gone));
      }
      return all;
    };
    for (;;) {
      const auto before = times();
      if (check(out)) return out.note("All of it passes.");
      out.note(fmt::format("Watching {}; save to check again, Ctrl-C to stop.", where.string()));
      while (times() == before) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

  ExitCode run(Output& out) const {
    if (words.empty()) throw UsageError("say what to do: list, start, check, hint, reset, watch or bundle");
    switch (
        parse_choice("exercise", words[0], {"list", "start", "check", "hint", "reset", "watch", "bundle"})) {
      case 0: list(out); break;
      case 1: start(out); break;
      case 2: return check(out) ? ExitCode::ok : ExitCode::check_failed;
      case 3: hint(out); break;
      case 4: reset(out); break;
      case 5: watch(out); break;
      default:
        lessons::write_bundle(word(1, "a name for the folder or .tar"));
        out.print(fmt::format("{}: {} files\n", words[1], lessons::bundle_files().size()));
    }
    return ExitCode::ok;
  }
};

}  // namespace

Command exercise_command() {
  return {
      "exercise",
      "write the algorithms yourself, and have them checked",
      {"flashsim exercise list", "flashsim exercise check lessons/keys --exercise 3"},
      "start N DIR writes a skeleton with one TODO, and its text. check DIR compiles what is in DIR, "
      "executes what "
      "it issues, and says what is right and what to think about. hint DIR gives the next of a few hints, "
      "from nudge "
      "to near-answer. watch DIR checks on every save until all passes. reset DIR puts the skeleton back and "
      "keeps "
      "yours beside it. bundle FILE writes everything a class needs, without answers, as a folder or a .tar.",
      [](Options& options) -> Run {
        auto c = std::make_shared<ExerciseCommand>();
        const auto add = [c](const std::string& text) { c->words.push_back(text); };
        options.positional("ACTION",
                           "list, start N DIR, check DIR, hint DIR, reset DIR, watch DIR, bundle FILE", add);
        options.positional("N_or_DIR", "the exercise's number after start, the folder after the others", add);
        options.positional("DIR", "after start and a number: the folder", add);
        options.heading("Which");
        options.text("-x,--exercise", "LIST", c->chosen, "these only, e.g. 3 or 1-4 (default: all in DIR)");
        options.integer("--level", c->level, 1, 9, "hint: this one, not the next");
        return [c](Output& out) { return c->run(out); };
      }};
}

}  // namespace flashsim::cli

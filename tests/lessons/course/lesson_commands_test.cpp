// The command lines that lessons quote, and flashsim lesson itself, run as a reader runs them.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lessons/course/lesson.h"
#include "simulator/user_schedule/subprocess.h"

using namespace flashsim;
using namespace flashsim::course;

namespace {

ProcessEnd run(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word);
  words.at(0) = FLASHSIM_EXECUTABLE;
  Process process(words, std::filesystem::temp_directory_path(),
                  {.processor_seconds = 60, .memory_bytes = 0});
  return process.wait(120);
}

/// Every lesson with its defaults, run once.
const Session& session_of(const Lesson& lesson) {
  static std::map<int, Session> all;
  const auto found = all.find(lesson.number);
  return found != all.end() ? found->second
                            : all.emplace(lesson.number, run_lesson(lesson, lesson.defaults)).first->second;
}

std::string right_answers(const Lesson& lesson, const Session& session) {
  std::string all;
  for (const Screen& s : script_of(lesson).screens)
    if (s.kind == ScreenKind::predict) all += (all.empty() ? "" : ",") + session.facts.answer(s.title).shown;
  return all;
}

}  // namespace

TEST_CASE("every command line that a lesson quotes runs") {
  for (const Lesson& lesson : lessons())
    for (const Screen& screen : session_of(lesson).script.screens) {
      if (screen.kind != ScreenKind::run) continue;
      CAPTURE(screen.title);
      const ProcessEnd end = run(screen.title);
      CAPTURE(end.output);
      CHECK(end.exit_code == 0);
      CHECK(end.output.size() > 100);
    }
}

TEST_CASE("right answers pass --strict, wrong and missing ones do not") {
  for (const Lesson& lesson : lessons()) {
    CAPTURE(lesson.number);
    const std::string number = std::to_string(lesson.number);
    const std::string answers = right_answers(lesson, session_of(lesson));
    CAPTURE(answers);
    const ProcessEnd right = run("flashsim lesson run " + number + " --strict --json --answer " + answers);
    REQUIRE(right.exit_code == 0);
    const nlohmann::json document = nlohmann::json::parse(right.output);
    CHECK(document.at("lesson") == lesson.number);
    CHECK_FALSE(document.at("questions").empty());
    for (const auto& question : document.at("questions")) CHECK(question.at("right") == true);
    CHECK(run("flashsim lesson run " + number + " --strict --json --answer -1").exit_code == 1);
  }
  CHECK(run("flashsim lesson run 1 --strict").exit_code == 1);
  CHECK(run("flashsim lesson run 1 --answer -1").exit_code == 0);
}

TEST_CASE("usage errors of flashsim lesson") {
  for (const char* line :
       {"flashsim lesson run", "flashsim lesson run 99", "flashsim lesson dance 1",
        "flashsim lesson run 4 --gpu h100", "flashsim lesson run 3 --block 7000",
        "flashsim lesson run 1 --answer much", "flashsim lesson run 1 --answer 1,2,3,4,5,6,7,8",
        "flashsim lesson run 1 --gpu potato"}) {
    CAPTURE(line);
    const ProcessEnd end = run(line);
    CAPTURE(end.output);
    CHECK(end.exit_code == 2);
    CHECK(end.output.find("error:") != std::string::npos);
  }
}

TEST_CASE("lesson list, show and questions") {
  for (const char* line : {"flashsim lesson", "flashsim lesson list", "flashsim lesson questions",
                           "flashsim lesson show 1", "flashsim lesson 2", "flashsim lesson list --json"})
    CHECK(run(line).exit_code == 0);
  // What is shown for preparation holds no answers.
  const Session& first = session_of(*find_lesson(1));
  CHECK(run("flashsim lesson show 1").output.find(first.facts.text("flops_per_byte") + " FLOP") ==
        std::string::npos);
}

TEST_CASE("pictures and numbers for slides") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("flashsim-lessons-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string to = folder.string();
  const bool png = run("flashsim lesson export 2 --format png --to " + to).exit_code == 0;
  if (!png) MESSAGE("rsvg-convert is not installed: no PNG here");
  CHECK(std::filesystem::exists(folder / "lesson_02_round_trips.png") == png);
  CHECK(run("flashsim lesson export 2 --to " + to).exit_code == 0);
  CHECK(std::filesystem::file_size(folder / "lesson_02_round_trips.svg") > 1000);
  CHECK(run("flashsim lesson export 2 --format csv --to " + to).exit_code == 0);
  CHECK(std::filesystem::exists(folder / "lesson_02_table_lengths.csv"));
  CHECK(run("flashsim traffic --sweep n=256:1024 --chart " + to + "/sweep.svg").exit_code == 0);
  CHECK(std::filesystem::file_size(folder / "sweep.svg") > 1000);
  CHECK(run("flashsim traffic --sweep n=256:1024 --chart " + to + "/sweep.pdf").exit_code == 2);
  for (const char* file : {"/bytes.svg", "/bytes.csv"}) {
    CHECK(
        run("flashsim traffic --algorithm standard,fa2 --pass both --n 256 --chart " + to + file).exit_code ==
        0);
    CHECK(std::filesystem::file_size(folder / (file + 1)) > 60);
  }
  CHECK(run("flashsim traffic --preset fa1-fig2 --chart " + to + "/preset.svg").exit_code == 2);
  CHECK(run("flashsim step --from 3 --to 3 --picture " + to + "/step.svg").exit_code == 0);
  CHECK(std::filesystem::file_size(folder / "step.svg") > 1000);
  CHECK(run("flashsim lesson export 2 --to /nowhere/at/all").exit_code == 3);
  std::filesystem::remove_all(folder);
}

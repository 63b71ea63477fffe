// Every screen of every lesson fits a terminal of 80 x 24, with the default settings and with others.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

#include "simulator/cli/lesson_screens.h"

using namespace flashsim;
using namespace flashsim::course;

namespace {

void check_screens(const Lesson& lesson, const Settings& settings) {
  const Session session = run_lesson(lesson, settings);
  const cli::Style plain;
  const std::vector<Screen>& screens = session.script.screens;
  for (std::size_t i = 0; i < screens.size(); ++i) {
    const std::string text = cli::heading_of(lesson, session.script, i, plain) +
                             cli::text_of(screens[i], session.facts, plain, 80);
    CAPTURE(lesson.number);
    CAPTURE(text);
    std::istringstream lines(text);
    int count = 0;
    // The last lines of the screen are for the prompt, and the command's name may be longer than a line.
    for (std::string line; std::getline(lines, line); ++count)
      if (!(screens[i].kind == ScreenKind::run && count == 1)) CHECK(cli::display_width(line) <= 80);
    CHECK(count <= 22);
    CHECK(text.find('{') == std::string::npos);
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find('~') == std::string::npos);  // a table that was cut
    if (screens[i].kind == ScreenKind::predict) {
      REQUIRE(i + 1 < screens.size());
      CHECK(screens[i + 1].kind == ScreenKind::explain);
    }
  }
  CHECK(screens.back().kind == ScreenKind::remember);
  CHECK(std::any_of(screens.begin(), screens.end(),
                    [](const Screen& s) { return s.kind == ScreenKind::predict; }));
  CHECK(
      std::any_of(screens.begin(), screens.end(), [](const Screen& s) { return s.kind == ScreenKind::run; }));
  for (const auto& [id, answer] : session.facts.answers()) {
    CAPTURE(id);
    CHECK(std::isfinite(answer.value));
    CHECK(answer.accepts(answer.value));
    // What is shown is a right answer.
    CHECK(answer.accepts(std::stod(answer.shown)));
  }
  for (const Chart& chart : session.facts.charts()) {
    CHECK_FALSE(chart.id.empty());
    CHECK_FALSE(chart.source.empty());
    for (const Series& s : chart.series)
      CHECK(s.y.size() == (chart.kind == Chart::Kind::lines ? s.x.size() : chart.categories.size()));
  }
}

}  // namespace

TEST_CASE("lessons are numbered in order") {
  int number = 0;
  for (const Lesson& lesson : lessons()) CHECK(lesson.number == ++number);
  CHECK(find_lesson(1) == &lessons().front());
  CHECK(find_lesson(0) == nullptr);
}

TEST_CASE("every screen fits 80 x 24") {
  for (const Lesson& lesson : lessons()) check_screens(lesson, lesson.defaults);
}

TEST_CASE("and with the ends of every setting's range") {
  for (const Lesson& lesson : lessons())
    for (const Use& use : lesson.uses) {
      if (use.min == use.max) continue;  // gpu, scores
      for (const std::int64_t value : {use.min, use.max}) {
        Settings s = lesson.defaults;
        if (use.name == "n") s.n = static_cast<int>(value);
        if (use.name == "d") s.d = static_cast<int>(value);
        if (use.name == "heads") s.heads = static_cast<int>(value);
        if (use.name == "block") s.block = static_cast<int>(value);
        if (use.name == "chunk") s.chunk = static_cast<int>(value);
        if (use.name == "bytes") s.bytes = value;
        CAPTURE(use.name);
        CAPTURE(value);
        check_screens(lesson, s);
      }
    }
}

TEST_CASE("and on every card") {
  for (const Lesson& lesson : lessons())
    if (std::any_of(lesson.uses.begin(), lesson.uses.end(), [](const Use& u) { return u.name == "gpu"; }))
      for (const Gpu& gpu : gpus()) {
        Settings s = lesson.defaults;
        s.gpu = &gpu;
        check_screens(lesson, s);
      }
}

TEST_CASE("every question that people ask names a screen that exists, and is in the teaching guide") {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/teaching.md");
  const std::string guide{std::istreambuf_iterator<char>(file), {}};
  CHECK(asked_questions().size() >= 6);
  for (const AskedQuestion& q : asked_questions()) {
    CAPTURE(q.question);
    CHECK(guide.find("| " + q.question + " | " + q.where + " | " + std::to_string(q.lesson) + " | " +
                     q.answered_by + " |") != std::string::npos);
    const Lesson* lesson = find_lesson(q.lesson);
    REQUIRE(lesson != nullptr);
    const Script script = script_of(*lesson);
    CHECK(std::any_of(script.screens.begin(), script.screens.end(),
                      [&](const Screen& s) { return s.title == q.answered_by; }));
  }
}

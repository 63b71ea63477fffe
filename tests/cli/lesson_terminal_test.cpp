// A lesson on a terminal: one screen at a time, right and wrong predictions, back, quit, and going on later.
#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "simulator/cli/lesson_answer.h"
#include "simulator/cli/style.h"
#include "tests/cli/terminal_session.h"

using flashsim::testing::Session;
using namespace flashsim::cli;

namespace {

constexpr const char* goes_on = "q quits: ";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// What a window shows: what was printed since the screen was last cleared, without the colours.
std::string shown(const std::string& printed) {
  const std::size_t cleared = printed.rfind("\x1b[2J");
  std::string text;
  bool escape = false;
  for (const char c : cleared == std::string::npos ? printed : printed.substr(cleared)) {
    if (c == '\x1b') escape = true;
    if (!escape && c != '\r') text += c;
    if (escape && std::isalpha(static_cast<unsigned char>(c))) escape = false;
  }
  return text;
}

bool ends_with(const std::string& text, std::string_view end) {
  return std::string_view(text).ends_with(end);
}

/// How many rows of a window of that width the text takes.
int rows(const std::string& text, int columns) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);)
    count += 1 + std::max(0, display_width(line) - 1) / columns;
  return count;
}

}  // namespace

TEST_CASE("from the first screen to the last, with every prompt answered") {
  for (const auto& [columns, lines] : {std::pair{80, 24}, std::pair{200, 50}}) {
    CAPTURE(columns);
    Session s({"lesson", "run", "1"}, columns, lines);
    CHECK(has(s.wait_for(goes_on), "Two kinds of memory"));
    s.press("\r");
    const std::string table = s.wait_for(goes_on);
    CHECK(has(table, "$ flashsim gpus"));
    CHECK(has(table, "Enter shows the rest") == (lines == 24));  // longer than such a window
    if (lines == 24) {
      s.press("\r");
      s.wait_for(goes_on);
    }
    s.press("\r");
    CHECK(has(s.wait_for(goes_on), "no GPU"));
    s.press("\r");
    s.wait_for("Your prediction (us): ");
    s.press("1\r");
    CHECK(has(s.wait_for("prediction (us): "), "1 is too little. Try again"));
    s.press("twenty\r");
    CHECK(has(s.wait_for("prediction (us): "), "That is not a number."));
    s.press("20 ms\r");
    CHECK(has(s.wait_for("prediction (us): "), "Type only a number, in us."));
    s.press("15.7 us\r");  // 32 MB at 2,039 GB/s
    CHECK(has(s.wait_for(goes_on), "Right."));
    s.press("x\r");
    CHECK(has(s.wait_for(goes_on), "type b or q"));
    s.press("\r");
    CHECK(has(s.wait_for(goes_on), "level by level"));
    s.press("\r");
    s.wait_for("Your prediction");
    for (int wrong = 0; wrong < 3; ++wrong) {
      s.press("1\r");
      if (wrong < 2) s.wait_for("Your prediction");
    }
    CHECK(has(s.wait_for(goes_on), "more or less is right"));
    s.press("\r");
    s.wait_for(goes_on);
    s.press("\r");
    const std::string last = shown(s.wait_for("Enter ends the lesson, b goes back: "));
    CHECK(has(last, "To remember"));
    CHECK(rows(last, columns) <= lines);
    s.press("\r");
    const int status = s.status();
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("back, quit, and going on where one left") {
  Session s({"lesson", "run", "3", "--block", "128"});
  const std::string first = shown(s.wait_for(goes_on));
  s.press("b\r");  // there is nothing before it
  CHECK(shown(s.wait_for(goes_on)) == first);
  s.press("\r");
  s.wait_for("Your prediction");
  s.press("b\r");
  CHECK(shown(s.wait_for(goes_on)) == first);
  s.press("\r");
  s.wait_for("Your prediction");
  s.press("\r");
  CHECK(has(s.wait_for(goes_on), "The answer: 160.0 KiB"));
  s.press("\r");
  s.wait_for(goes_on);
  s.press("q\r");
  s.wait_for("To go on: flashsim lesson run 3 --from 3 --block 128");
  CHECK(WEXITSTATUS(s.status()) == 0);

  Session later({"lesson", "run", "3", "--from", "3", "--block", "128"});
  CHECK(has(later.wait_for(goes_on), "What is alive in one step"));
  later.press("\x04");  // Ctrl-D: the end of what is typed
  later.wait_for("To go on: flashsim lesson run 3 --from 3");
  CHECK(WEXITSTATUS(later.status()) == 0);
}

TEST_CASE("quitting at a prediction, and Ctrl-C") {
  Session s({"lesson", "run", "3", "--from", "2"});
  s.wait_for("Your prediction");
  s.press("q\r");
  s.wait_for("To go on: flashsim lesson run 3 --from 2");
  CHECK(WEXITSTATUS(s.status()) == 0);

  Session interrupted({"lesson", "run", "3"});
  interrupted.wait_for(goes_on);
  CHECK(interrupted.cooked());
  interrupted.press("\x03");
  const int status = interrupted.status();
  CHECK((WIFSIGNALED(status) ? WTERMSIG(status) == SIGINT : WEXITSTATUS(status) == 130));
  CHECK(interrupted.cooked());
}

TEST_CASE("in a window of 80 x 24 nothing scrolls away, whatever the lesson") {
  for (int lesson = 1; lesson <= 12; ++lesson) {
    CAPTURE(lesson);
    Session s({"lesson", "run", std::to_string(lesson)});
    bool last = false;
    int predictions = 0;
    for (int prompts = 0; !last && prompts < 60; ++prompts) {
      std::string window;
      s.wait_until("a prompt", [&](const std::string& printed) {
        window = shown(printed);
        return ends_with(window, goes_on) || ends_with(window, "goes back: ") || ends_with(window, "): ") ||
               ends_with(window, "prediction: ");
      });
      CAPTURE(window);
      if (ends_with(window, "): ") || ends_with(window, "prediction: ")) ++predictions;
      last = ends_with(window, "goes back: ");
      CHECK(rows(window, 80) <= 24);
      s.press("\r");
    }
    CHECK(last);
    CHECK(predictions > 0);
    CHECK(WEXITSTATUS(s.status()) == 0);
  }
}

TEST_CASE("what counts as a number") {
  CHECK(*typed_number(" 72 ", "KiB").value == 72);
  CHECK(*typed_number("72kib", "KiB").value == 72);
  CHECK(*typed_number("1,048,576", "").value == 1048576);
  CHECK(*typed_number("-7.5e-1", "").value == -0.75);
  CHECK(*typed_number("+3 x", "times").value == 3);
  CHECK(*typed_number("97%", "%").value == 97);
  for (const char* text : {"", "x", "10^5", "1/2", "7,5", "7,", ",500", "1,0485", "nan", "inf", "1e999",
                           "72 MB", "3 4", "0x10", "--3"}) {
    CAPTURE(text);
    CHECK_FALSE(typed_number(text, "KiB").value.has_value());
    CHECK(typed_number(text, "KiB").fault.size() > 15);
  }
  CHECK(typed_turn("") == PageTurn::on);
  CHECK(typed_turn(" Q \r") == PageTurn::quit);
  CHECK(typed_turn("back") == PageTurn::back);
  CHECK_FALSE(typed_turn("72"));
  CHECK(is_skip(" ? "));
  CHECK_FALSE(is_skip("0"));
}

// flashsim step on a real (pseudo) terminal: keys work, and the terminal is given back whatever ends the
// program.
#include "tests/cli/terminal_session.h"

using flashsim::testing::Session;

namespace {

const std::vector<std::string> small = {"step", "--n", "128", "--d", "32", "--block", "32"};

}  // namespace

TEST_CASE("next, back, jump, resize and quit") {
  Session s(small);
  const std::string first = s.wait_for(" quit");
  CHECK(first.find("\x1b[?1049h") != std::string::npos);
  CHECK(first.find("step 1 of 20") != std::string::npos);
  CHECK_FALSE(s.cooked());
  s.press("n");
  const std::string second = s.wait_for(" quit");
  CHECK(second.find("step 2 of 20") != std::string::npos);
  s.press("\x1b[C");  // the right arrow
  CHECK(s.wait_for(" quit").find("step 3 of 20") != std::string::npos);
  s.press("b");
  CHECK(s.wait_for(" quit") == second);
  s.press("j");
  s.wait_for("tile i,j");
  s.press("3");
  s.wait_for("3");
  s.press(",");
  s.wait_for(",");
  s.press("2");
  s.wait_for("2");
  s.press("\r");
  CHECK(s.wait_for(" quit").find("(3, 2)") != std::string::npos);
  s.resize(200, 50);
  CHECK(s.wait_for(" quit").find("(3, 2)") != std::string::npos);
  s.press("q");
  std::string rest;
  const int status = s.status(&rest);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(rest.find("\x1b[?25h") != std::string::npos);  // the cursor is back
  CHECK(s.cooked());
}

TEST_CASE("Ctrl-C ends with code 130 and gives the terminal back") {
  Session s(small);
  s.wait_for(" quit");
  s.press("\x03");
  std::string rest;
  const int status = s.status(&rest);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(rest.find("\x1b[?25h") != std::string::npos);
  CHECK(s.cooked());
}

TEST_CASE("signals that end the program give the terminal back") {
  for (const int number : {SIGTERM, SIGHUP, SIGQUIT}) {
    CAPTURE(number);
    Session s(small);
    s.wait_for(" quit");
    s.signal(number);
    std::string rest;
    const int status = s.status(&rest);
    CHECK((WIFSIGNALED(status) ? WTERMSIG(status) == number : WEXITSTATUS(status) == 130));
    CHECK(s.cooked());
  }
}

TEST_CASE("stopping gives the terminal back, continuing takes it again") {
  Session s(small);
  s.wait_for(" quit");
  s.stop();
  s.wait_for("\x1b[?1049l");
  CHECK(s.cooked());
  s.signal(SIGCONT);
  CHECK(s.wait_for(" quit").find("step 1 of 20") != std::string::npos);
  CHECK_FALSE(s.cooked());
  s.press("q");
  CHECK(WEXITSTATUS(s.status()) == 0);
}

TEST_CASE("a window too small for a frame does no harm") {
  Session s(small, 20, 5);
  s.wait_for("step 1 of 20");
  s.press("n");
  s.wait_for("step 2 of 20");
  s.press("q");
  CHECK(WEXITSTATUS(s.status()) == 0);
}

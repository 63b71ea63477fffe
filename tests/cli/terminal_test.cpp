// flashsim step on a real (pseudo) terminal: keys work, and the terminal is given back whatever ends the
// program.
#include <doctest/doctest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// The program in a window of its own.
class Session {
 public:
  explicit Session(const std::vector<std::string>& arguments, int columns = 80, int rows = 24) {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    termios cooked{};
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      setenv("LANG", "C.UTF-8", 1);
      unsetenv("LC_ALL");
      unsetenv("LC_CTYPE");
      setenv("TERM", "xterm-256color", 1);
      unsetenv("NO_COLOR");
      std::vector<char*> argv = {const_cast<char*>(FLASHSIM_PROGRAM)};
      for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
      argv.push_back(nullptr);
      execv(FLASHSIM_PROGRAM, argv.data());
      _exit(127);
    }
    tcgetattr(terminal_, &cooked);
    before_ = cooked.c_lflag;
  }
  ~Session() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(terminal_);
  }

  /// Reads until `text` appears in what came since the last call; gives all of that.
  std::string wait_for(const std::string& text) {
    std::string seen;
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (seen.find(text) == std::string::npos && Clock::now() < end) {
      pollfd waiting{terminal_, POLLIN, 0};
      if (poll(&waiting, 1, 200) <= 0) continue;
      char buffer[4096];
      const ssize_t n = read(terminal_, buffer, sizeof buffer);
      if (n <= 0) break;
      seen.append(buffer, static_cast<std::size_t>(n));
    }
    CHECK_MESSAGE(seen.find(text) != std::string::npos, "waited for '" << text << "', saw\n" << seen);
    return seen;
  }
  void press(const std::string& keys) {
    REQUIRE(write(terminal_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }
  void resize(int columns, int rows) {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    ioctl(terminal_, TIOCSWINSZ, &size);
  }
  void signal(int number) { kill(child_, number); }
  /// Stops the program as Ctrl-Z does and waits until it has: a SIGCONT sent earlier would be lost, since the
  /// program gives the terminal back before it stops.
  void stop() {
    signal(SIGTSTP);
    int status = 0;
    REQUIRE(waitpid(child_, &status, WUNTRACED) == child_);
    REQUIRE(WIFSTOPPED(status));
  }
  /// What the program printed last, and how it ended.
  int status(std::string* rest = nullptr) {
    if (rest != nullptr) *rest = wait_for("\x1b[?1049l");
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return status;
  }
  bool cooked() const {
    termios now{};
    tcgetattr(terminal_, &now);
    return now.c_lflag == before_;
  }

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
  tcflag_t before_ = 0;
};

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

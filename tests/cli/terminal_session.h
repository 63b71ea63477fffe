// The program on a (pseudo) terminal of its own, for tests that press keys.
#pragma once

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

namespace flashsim::testing {

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
    return wait_until("'" + text + "'",
                      [&](const std::string& seen) { return seen.find(text) != std::string::npos; });
  }
  /// The same with a condition on all that came since the last call.
  template <class Condition>
  std::string wait_until(const std::string& what, Condition holds) {
    std::string seen;
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::seconds(120);
    bool met = false;
    while (!(met = holds(seen)) && Clock::now() < end) {
      pollfd waiting{terminal_, POLLIN, 0};
      if (poll(&waiting, 1, 200) <= 0) continue;
      char buffer[4096];
      const ssize_t n = read(terminal_, buffer, sizeof buffer);
      if (n <= 0) break;
      seen.append(buffer, static_cast<std::size_t>(n));
    }
    CHECK_MESSAGE(met, "waited for " << what << ", saw\n" << seen);
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

}  // namespace flashsim::testing

#include "simulator/cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "simulator/cli/output.h"

namespace flashsim::cli {
namespace {

// Alternate screen, no cursor, no wrapping at the right edge; and back.
constexpr std::string_view enter_screen = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view leave_screen = "\x1b[?7h\x1b[?25h\x1b[?1049l";

// What signal handlers need. Written before the handlers are installed.
termios cooked{}, raw{};
int input_of_screen = -1, output_of_screen = -1;
volatile std::sig_atomic_t on_screen = 0, size_changed = 0;

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(output_of_screen, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;  // the terminal has gone: reading will tell
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// Only what a signal handler may do.
void leave() {
  if (on_screen == 0) return;
  on_screen = 0;
  put(leave_screen);
  tcsetattr(input_of_screen, TCSADRAIN, &cooked);
}

void enter() {
  tcsetattr(input_of_screen, TCSADRAIN, &raw);
  put(enter_screen);
  on_screen = 1;
}

void resized(int /*signal*/) { size_changed = 1; }

void stopped(int /*signal*/) {
  const int error = errno;
  leave();
  raise(SIGSTOP);  // returns when the shell continues the process
  enter();
  size_changed = 1;
  errno = error;
}

void ended(int signal) {
  leave();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

constexpr std::array caught = {SIGWINCH, SIGTSTP, SIGHUP, SIGQUIT};
std::array<struct sigaction, caught.size()> handlers_before;

}  // namespace

Terminal::Terminal(int input, int output) : input_(input), output_(output) {
  if (isatty(output) == 0 || tcgetattr(input, &cooked) != 0) throw std::runtime_error("not a terminal");
  raw = cooked;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);  // ISIG stays: Ctrl-C interrupts
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_cc[VMIN] = 0;  // reads never block: poll waits
  raw.c_cc[VTIME] = 0;
  input_of_screen = input;
  output_of_screen = output;
  on_interrupt(leave);
  for (std::size_t k = 0; k < caught.size(); ++k) {
    struct sigaction action {};
    action.sa_handler = caught[k] == SIGWINCH ? resized : caught[k] == SIGTSTP ? stopped : ended;
    sigaction(caught[k], &action, &handlers_before[k]);
  }
  enter();
}

Terminal::~Terminal() {
  leave();
  on_interrupt(nullptr);
  for (std::size_t k = 0; k < caught.size(); ++k) sigaction(caught[k], &handlers_before[k], nullptr);
}

TerminalSize Terminal::size() const {
  winsize w{};
  if (ioctl(output_, TIOCGWINSZ, &w) != 0 || w.ws_col == 0 || w.ws_row == 0) return {};
  return {w.ws_col, w.ws_row};
}

/// The next byte, or -1 where none comes in time (timeout_ms < 0: ever) and -2 where the input is closed.
int Terminal::next_byte(int timeout_ms) {
  // The size may change between the test of the flag and the wait: the signal stays blocked but for the wait.
  sigset_t block, before;
  sigemptyset(&block);
  sigaddset(&block, SIGWINCH);
  sigprocmask(SIG_BLOCK, &block, &before);
  pollfd waiting{input_, POLLIN, 0};
  const timespec time{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  const int ready = size_changed != 0 ? 0 : ppoll(&waiting, 1, timeout_ms < 0 ? nullptr : &time, &before);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (ready <= 0) return -1;
  unsigned char byte = 0;
  const ssize_t n = ::read(input_, &byte, 1);
  return n == 1 ? byte : n < 0 && (errno == EINTR || errno == EAGAIN) ? -1 : -2;
}

/// What follows ESC: a cursor key, or nothing.
KeyPress Terminal::escape_sequence() {
  constexpr int patience_ms = 50;  // a terminal sends a sequence at once
  const int opening = next_byte(patience_ms);
  if (opening != '[' && opening != 'O') return {Key::escape, 0};
  int final = next_byte(patience_ms), digit = 0;
  while (final == ';' || (final >= '0' && final <= '9')) {
    if (digit == 0) digit = final;
    final = next_byte(patience_ms);
  }
  switch (final) {
    case 'A': return {Key::up, 0};
    case 'B': return {Key::down, 0};
    case 'C': return {Key::right, 0};
    case 'D': return {Key::left, 0};
    case 'H': return {Key::home, 0};
    case 'F': return {Key::end, 0};
    case '~':
      if (digit == '1' || digit == '7') return {Key::home, 0};
      if (digit == '4' || digit == '8') return {Key::end, 0};
      if (digit == '5') return {Key::page_up, 0};
      if (digit == '6') return {Key::page_down, 0};
      break;
    default: break;
  }
  return {Key::character, 0};
}

KeyPress Terminal::read_key() {
  for (;;) {
    if (size_changed != 0) {
      size_changed = 0;
      return {Key::resized, 0};
    }
    const int byte = next_byte(-1);
    if (byte == -2) return {Key::closed, 0};
    if (byte == -1) continue;
    if (byte == '\r' || byte == '\n') return {Key::enter, 0};
    if (byte == 0x7f || byte == '\b') return {Key::backspace, 0};
    if (byte == 4) return {Key::closed, 0};  // Ctrl-D
    if (byte == 0x1b) return escape_sequence();
    if (byte >= 0x80) {
      if (byte >= 0xc0) return {Key::character, 0};  // one for the whole UTF-8 sequence
      continue;
    }
    if (std::isprint(byte) != 0) return {Key::character, static_cast<char>(byte)};
  }
}

void Terminal::show(std::string_view text) {
  std::string screen = "\x1b[H";
  const int rows = size().rows;
  int drawn = 0;
  for (; drawn < rows && !text.empty(); ++drawn) {
    const std::size_t end = text.find('\n');
    screen += drawn > 0 ? "\r\n" : "";
    screen += "\x1b[K";  // first: after a full line the cursor stands on its last column
    screen += text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  put(screen + (drawn < rows ? "\r\n\x1b[J" : ""));
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* value = std::getenv(name); value != nullptr && value[0] != '\0') {
      std::string text(value);
      for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
    }
  return false;
}

}  // namespace flashsim::cli

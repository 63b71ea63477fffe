#include "simulator/cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "simulator/cli/errors.h"

namespace flashsim::cli {
namespace {

// What the signal handler needs to know. The path is a copy in plain storage, because a handler may not touch
// a std::string that is being changed.
std::array<char, 4096> unfinished_file{};
void (*restore_terminal)() = nullptr;

void interrupted(int /*signal*/) {
  if (restore_terminal != nullptr) restore_terminal();
  if (unfinished_file[0] != '\0') unlink(unfinished_file.data());
  _exit(static_cast<int>(ExitCode::interrupted));
}

void remember(const std::string& path) {
  if (path.size() >= unfinished_file.size()) return;
  std::memcpy(unfinished_file.data() + 1, path.c_str() + 1, path.size());
  unfinished_file[0] = path[0];  // last: from here on the handler removes it
}

[[noreturn]] void cannot_write(const std::string& path) {
  throw InputError(
      fmt::format("cannot write {}: {}. Name a file in a folder that exists and may be written to", path,
                  std::strerror(errno)));
}

void write_all(int fd, std::string_view data, const std::string& name) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) throw OutputClosed();
    if (n < 0) cannot_write(name);
    data.remove_prefix(static_cast<std::size_t>(n));
  }
}

bool to_stdout(const OutputOptions& o) { return o.file.empty() || o.file == "-"; }

}  // namespace

void handle_interrupts() {
  struct sigaction action {};
  action.sa_handler = interrupted;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe is noticed by write, which then can tell it from a full disk.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

void on_interrupt(void (*restore)()) { restore_terminal = restore; }

// ------------------------------------------------------------------------------------------------ AtomicFile

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat there {};
  if (stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    if (S_ISDIR(there.st_mode)) errno = EISDIR;
    fd_ = S_ISDIR(there.st_mode) ? -1 : open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) cannot_write(path_);
    return;
  }
  temporary_ = path_ + ".XXXXXX";
  fd_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (fd_ < 0) cannot_write(path_);
  remember(temporary_);
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(fd_, 0666 & ~mask);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  unfinished_file[0] = '\0';
}

void AtomicFile::write(std::string_view data) { write_all(fd_, data, path_); }

void AtomicFile::commit() {
  const int closed = close(std::exchange(fd_, -1));
  if (temporary_.empty()) return;
  const bool done = closed == 0 && rename(temporary_.c_str(), path_.c_str()) == 0;
  unfinished_file[0] = '\0';
  if (done) return;
  const int reason = errno;
  unlink(temporary_.c_str());
  errno = reason;
  cannot_write(path_);
}

// ---------------------------------------------------------------------------------------------------- Output

Output::Output(OutputOptions options)
    : options_(std::move(options)),
      style_(!options_.json && (to_stdout(options_) ? wants_color(options_.color, STDOUT_FILENO)
                                                    : options_.color == Color::always)),
      width_(columns_of(to_stdout(options_) ? STDOUT_FILENO : -1)) {
  if (!to_stdout(options_)) file_ = std::make_unique<AtomicFile>(options_.file);
}

bool Output::interactive() const {
  return !options_.json && to_stdout(options_) && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
}

void Output::print(std::string_view text) {
  if (file_ != nullptr) {
    file_->write(text);
  } else {
    write_all(STDOUT_FILENO, text, "the standard output");
  }
}

void Output::note(std::string_view message) const {
  if (options_.quiet) return;
  const Style style(wants_color(options_.color, STDERR_FILENO));
  fmt::print(stderr, "{} {}\n", style.dim("flashsim:"), message);
}

void Output::finish() {
  if (file_ != nullptr) file_->commit();
}

}  // namespace flashsim::cli

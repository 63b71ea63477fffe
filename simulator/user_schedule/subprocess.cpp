#include "simulator/user_schedule/subprocess.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <optional>
#include <system_error>
#include <thread>

#include "simulator/user_schedule/printable.h"

namespace flashsim {
namespace {

constexpr std::size_t kept_output = 8192;

void limit(int resource, std::int64_t value) {
  const rlimit r{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  setrlimit(static_cast<__rlimit_resource>(resource), &r);
}

/// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(char* const* argv, const char* folder, const ProcessLimits& limits, int output_fd,
                         int inherited_fd, int error_fd, char* library_path,
                         const PreparedConfinement* confinement) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const int null_fd = open("/dev/null", O_RDONLY);
  dup2(null_fd, 0);
  dup2(output_fd, 1);
  dup2(output_fd, 2);
  limit(RLIMIT_CPU, static_cast<std::int64_t>(std::ceil(limits.processor_seconds)));
  limit(RLIMIT_FSIZE, limits.file_bytes);
  limit(RLIMIT_NOFILE, limits.open_files);
  limit(RLIMIT_CORE, 0);
  char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", locale[] = "LC_ALL=C", temporary[] = "TMPDIR=.";
  char* const environment[] = {path, locale, temporary, library_path, nullptr};
  int error = chdir(folder) == 0 ? 0 : errno;
  if (error == 0 && confinement != nullptr && !confinement->apply()) error = EPERM;
  // Descriptors 3 and above go, but for the inherited one and the one that reports a failing exec.
  const int low = std::min(inherited_fd < 0 ? error_fd : inherited_fd, error_fd);
  const int high = std::max(inherited_fd, error_fd);
  const auto close_all = [](unsigned from, unsigned to) {
    if (from <= to) syscall(SYS_close_range, from, to, 0);
  };
  close_all(3, static_cast<unsigned>(low) - 1);
  close_all(static_cast<unsigned>(low) + 1, static_cast<unsigned>(high) - 1);
  close_all(static_cast<unsigned>(high) + 1, ~0u);
  // Last, for this process may hold more than the program is allowed.
  if (limits.memory_bytes > 0) limit(RLIMIT_AS, limits.memory_bytes);
  if (error == 0) execvpe(argv[0], argv, environment), error = errno;
  [[maybe_unused]] const ssize_t sent = write(error_fd, &error, sizeof error);
  _exit(127);
}

}  // namespace

std::string ProcessEnd::describe() const {
  if (signal != 0)
    return "was ended by signal " + std::to_string(signal) + " (" + std::string(strsignal(signal)) + ")";
  return "ended with exit code " + std::to_string(exit_code);
}

Process::Process(const std::vector<std::string>& argv, const std::filesystem::path& folder,
                 const ProcessLimits& limits, int inherited_fd, const Confinement* confinement) {
  std::optional<PreparedConfinement> prepared;
  if (confinement != nullptr) prepared.emplace(*confinement);
  std::vector<char*> arguments;
  for (const std::string& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  std::string library_path =
      limits.library_folder.empty() ? "" : "LD_LIBRARY_PATH=" + limits.library_folder.string();
  output_fd_ = memfd_create("output", MFD_CLOEXEC);
  int error[2];
  if (output_fd_ < 0 || pipe2(error, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot start " + argv[0]);
  pid_ = fork();
  if (pid_ == 0)
    become(arguments.data(), folder.c_str(), limits, output_fd_, inherited_fd, error[1],
           library_path.empty() ? nullptr : library_path.data(), prepared ? &*prepared : nullptr);
  const int fork_error = errno;
  close(error[1]);
  int exec_error = 0;
  const bool failed = pid_ < 0 || read(error[0], &exec_error, sizeof exec_error) == sizeof exec_error;
  close(error[0]);
  if (failed) {
    kill();
    close(output_fd_);
    throw std::system_error(pid_ < 0 ? fork_error : exec_error, std::generic_category(),
                            "cannot start " + argv[0]);
  }
}

Process::~Process() {
  kill();
  close(output_fd_);
}

void Process::kill() noexcept {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // before setsid it has no group of its own yet
  int status;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
  pid_ = -1;
}

ProcessEnd Process::wait(double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  pid_t ended;
  while ((ended = waitpid(pid_, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (ended == 0) {
    ::kill(-pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }
  ::kill(-pid_, SIGKILL);  // descendants that it left behind
  pid_ = -1;
  ProcessEnd end;
  if (WIFSIGNALED(status)) {
    end.exit_code = -1;
    end.signal = WTERMSIG(status);
  } else {
    end.exit_code = WEXITSTATUS(status);
  }
  end.output.resize(kept_output);
  const ssize_t n = pread(output_fd_, end.output.data(), kept_output, 0);
  end.output.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  end.output = printable(end.output);
  return end;
}

}  // namespace flashsim

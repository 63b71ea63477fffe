// A child process with limits, from start to end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "simulator/user_schedule/confinement.h"

namespace flashsim {

struct ProcessLimits {
  double processor_seconds = 20;
  std::int64_t memory_bytes = std::int64_t{2} << 30;  ///< address space; 0: no limit
  std::int64_t file_bytes = 1 << 20;                  ///< of any file it writes, what it prints included
  int open_files = 64;
  std::filesystem::path library_folder = {};  ///< LD_LIBRARY_PATH; empty: not set
};

struct ProcessEnd {
  int exit_code = 0;  ///< -1 where a signal ended it
  int signal = 0;
  std::string output;  ///< the beginning of what it printed on stdout and stderr, printable()
  /// "ended with exit code 3", "was ended by signal 11 (Segmentation fault)".
  std::string describe() const;
};

/// A running child in a process group of its own. Killed with all its descendants when this object dies.
class Process {
 public:
  /// Starts argv[0] in `folder` with an empty environment but for PATH, LC_ALL, TMPDIR (= folder) and the
  /// library folder, stdin closed, and, where `inherited_fd` is not negative, that descriptor open under the
  /// same number. `confinement`, if given, is applied before the program starts. Throws std::system_error
  /// where it cannot start.
  Process(const std::vector<std::string>& argv, const std::filesystem::path& folder,
          const ProcessLimits& limits, int inherited_fd = -1, const Confinement* confinement = nullptr);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  /// Waits for the end, at most `seconds`; then it is killed, and signal is SIGKILL.
  ProcessEnd wait(double seconds);
  /// Kills it and its descendants now.
  void kill() noexcept;

 private:
  pid_t pid_ = -1;
  int output_fd_ = -1;
};

}  // namespace flashsim

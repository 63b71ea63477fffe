// A C++ file of the user's, compiled together with one of our main functions, to be run in processes of its
// own with limits. What it is for, a schedule or answers to calls, is decided by the libraries it is linked
// with.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "simulator/user_schedule/subprocess.h"

namespace flashsim {

/// The file does not compile, or its process crashed, ran out of time or memory, or sent nonsense. what()
/// says which, with the compiler's or the program's own words.
class UserScheduleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// The kind of it that the compiler reports.
class UserCompileError : public UserScheduleError {
 public:
  using UserScheduleError::UserScheduleError;
};

struct UserLimits {
  double compile_seconds = 60;
  /// Of the process's own processor time, and of waiting for it. What flashsim does with its answers takes
  /// none of it.
  double run_seconds = 20;
  std::int64_t memory_bytes = std::int64_t{2} << 30;
  std::int64_t operations = 500'000'000;
  /// run_seconds for messages, e.g. "20 s".
  std::string run_time() const;
};

/// Where headers, the library and the compiler are. found() gives the places of this build or installation.
struct Toolchain {
  std::string compiler;
  std::filesystem::path include;  ///< holds simulator/ and cpu_reference/
  std::vector<std::filesystem::path>
      libraries;                      ///< the driver, simulator and reference libraries, in link order
  std::string flags;                  ///< separated by spaces
  std::vector<std::string> language;  ///< what makes it this language; "-std=c++20", "-O1" for C++
  std::vector<std::string> piped;     ///< for compiling without intermediate files
  /// If given, compiler and program may read nothing but the system's own folders and these, and the program
  /// starts no processes. The file itself is copied first; a link or anything but a small file is refused.
  std::optional<std::vector<std::filesystem::path>> confined_to;
  /// The program carries AddressSanitizer, as our libraries do then: its memory is not limited, for the
  /// sanitizer reserves terabytes of address space.
  bool sanitized = false;
  bool uses_gpu = false;                ///< confined programs may use devices and start threads, as CUDA does
  bool all_files = false;               ///< and, with a GPU, every file
  std::filesystem::path driver_folder;  ///< of CUDA's driver library; empty: where the linker looks anyway
  static Toolchain found();
};

/// A compiled program; it lives in a temporary folder that dies with the last copy of this object.
class UserProgram {
 public:
  /// Throws UserScheduleError, and UserCompileError with the compiler's messages.
  static UserProgram compile(const std::filesystem::path& file, const UserLimits& limits = {},
                             const Toolchain& tools = Toolchain::found());
  /// Starts it with the number of `inherited_fd`, which stays open in it, and `argument`.
  Process start(int inherited_fd, const std::string& argument) const;
  /// The source file's name, for messages.
  const std::string& name() const;
  const std::filesystem::path& executable() const;
  const UserLimits& limits() const;
  /// Waits for the end of a process that broke off early, and says why it did. `what` was seen to go wrong.
  UserScheduleError broken(Process& process, const std::string& what) const;

 private:
  struct State;
  explicit UserProgram(std::shared_ptr<const State> s) : state_(std::move(s)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace flashsim

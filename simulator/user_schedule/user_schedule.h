// A schedule from a file of the user's: compiled, and run in a process of its own with limits. The file
// defines
//   void schedule(flashsim::Device& gpu, const flashsim::Problem& p, const flashsim::Tiling& t);
// It only issues operations; flashsim executes and counts them, on inputs that the process never sees.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "simulator/machine/program.h"

namespace flashsim {

/// The file does not compile, or its process crashed, ran out of time or memory, or sent nonsense. what()
/// says which, with the compiler's or the program's own words.
class UserScheduleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct UserLimits {
  double compile_seconds = 60;
  double run_seconds = 20;  ///< of wall time and of processor time
  std::int64_t memory_bytes = std::int64_t{2} << 30;
  std::int64_t operations = 500'000'000;
};

/// Where headers, the library and the compiler are. found() gives the places of this build or installation.
struct Toolchain {
  std::string compiler;
  std::filesystem::path include;  ///< holds simulator/ and cpu_reference/
  std::vector<std::filesystem::path>
      libraries;  ///< the driver, simulator and reference libraries, in link order
  std::string flags;
  static Toolchain found();
};

/// A compiled schedule; its program lives in a temporary folder that dies with this object.
class UserSchedule {
 public:
  /// Throws UserScheduleError with the compiler's messages.
  static UserSchedule compile(const std::filesystem::path& file, const UserLimits& limits = {},
                              const Toolchain& tools = Toolchain::found());
  /// The program for a problem and a tiling. Running it throws UserScheduleError, ScheduleError and what
  /// executors throw.
  Program program(const Problem& p, const Tiling& t) const;
  const std::filesystem::path& executable() const;

 private:
  struct State;
  explicit UserSchedule(std::shared_ptr<const State> s) : state_(std::move(s)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace flashsim

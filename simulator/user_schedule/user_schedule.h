// A schedule from a file of the user's: compiled, and run in a process of its own with limits. The file
// defines
//   void schedule(flashsim::Device& gpu, const flashsim::Problem& p, const flashsim::Tiling& t);
// It only issues operations; flashsim executes and counts them, on inputs that the process never sees.
#pragma once

#include <filesystem>
#include <utility>

#include "simulator/machine/program.h"
#include "simulator/user_schedule/user_program.h"

namespace flashsim {

/// A compiled schedule; its program lives in a temporary folder that dies with this object.
class UserSchedule {
 public:
  /// Throws UserScheduleError with the compiler's messages.
  static UserSchedule compile(const std::filesystem::path& file, const UserLimits& limits = {},
                              const Toolchain& tools = Toolchain::found()) {
    return UserSchedule(UserProgram::compile(file, limits, tools));
  }
  /// The program for a problem and a tiling. Running it throws UserScheduleError, ScheduleError and what
  /// executors throw.
  Program program(const Problem& p, const Tiling& t) const;
  const std::filesystem::path& executable() const { return user_.executable(); }

 private:
  explicit UserSchedule(UserProgram user) : user_(std::move(user)) {}
  UserProgram user_;
};

}  // namespace flashsim

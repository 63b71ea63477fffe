// What a command runs: an algorithm of the list, or a schedule from a file of the user's.
#pragma once

#include <memory>
#include <string>

#include "simulator/machine/program.h"
#include "simulator/schedules/schedules.h"
#include "simulator/user_schedule/user_schedule.h"

namespace flashsim::cli {

struct Candidate {
  const Algorithm* algorithm = nullptr;  ///< of the user's file: an entry outside the list, named "schedule"
  std::shared_ptr<const UserSchedule> user;  ///< null for an algorithm of the list

  std::string name() const { return std::string(algorithm->name); }
  /// A user's file holds a forward pass.
  bool has(bool backward) const { return user ? !backward : !backward || algorithm->backward != nullptr; }
  Program program(bool backward, const Problem& p, const Tiling& t) const;
};

/// Compiles the file. Throws UserScheduleError.
Candidate user_candidate(const std::string& file);

}  // namespace flashsim::cli

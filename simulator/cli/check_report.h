// How flashsim check says what it found.
#pragma once

#include <string>
#include <vector>

#include "simulator/cli/check_run.h"
#include "simulator/cli/output.h"

namespace flashsim::cli {

/// `details`: a line a result instead of a line an algorithm. `given`: see command_of.
void print_checks(const std::vector<CheckRun>& runs, const std::string& title, bool details,
                  const GivenFiles& given, Output& out);
void print_checks_json(const std::vector<CheckRun>& runs, const GivenFiles& given, Output& out);

}  // namespace flashsim::cli

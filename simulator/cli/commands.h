// The commands, each defined in the file of its name.
#pragma once

#include "simulator/cli/command.h"

namespace flashsim::cli {

Command algorithms_command();

}  // namespace flashsim::cli

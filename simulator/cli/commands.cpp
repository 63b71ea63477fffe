#include "simulator/cli/commands.h"

namespace flashsim::cli {

std::vector<Command> commands() { return {algorithms_command()}; }

}  // namespace flashsim::cli

// What a command is: a name, its help, its options and what it does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulator/cli/errors.h"
#include "simulator/cli/options.h"
#include "simulator/cli/output.h"

namespace flashsim::cli {

using Run = std::function<ExitCode(Output&)>;

struct Command {
  std::string name;
  std::string summary;                ///< one line
  std::vector<std::string> examples;  ///< command lines that open the help; tests run them
  std::string details;                ///< a paragraph for the command's own help; may be empty
  /// Declares the options and gives what runs after they have been parsed. What they are parsed into lives in
  /// the returned function.
  std::function<Run(Options&)> setup;
};

/// Every command, in the order of the help. Each is defined in the file of its name.
std::vector<Command> commands();

/// What the command's help lists, those of every command (--json, --output ...) included; not -h,--help.
std::vector<OptionHelp> options_of(const Command& command);

/// Parses the command line and runs the command it names. Throws what the command throws, and UsageError.
ExitCode run(const std::vector<Command>& commands, int argc, const char* const* argv);

}  // namespace flashsim::cli

// What can go wrong in a command, and the exit code each kind of error ends the process with.
#pragma once

#include <exception>
#include <stdexcept>

namespace flashsim::cli {

enum class ExitCode : int {
  ok = 0,
  check_failed = 1,  ///< a comparison failed, or a schedule did what no machine can do
  usage = 2,         ///< the command line asks for something that does not exist or does not fit
  input = 3,         ///< a file or its contents, or a resource of this machine
  no_gpu = 4,        ///< a GPU is needed and there is none
  interrupted = 130
};

/// The command line is wrong. The message says what was given, what was expected and what to do.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file cannot be read or written, or holds something else than expected.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command needs a GPU, or a build with CUDA.
class GpuNeededError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whoever reads the standard output has stopped (as `head` does): nothing is left to do, and nothing is
/// wrong.
class OutputClosed : public std::exception {};

/// The one place where errors, the libraries' too, turn into exit codes.
ExitCode exit_code_of(const std::exception& error);

}  // namespace flashsim::cli

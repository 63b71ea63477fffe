// Code of the user's that answers calls: compiled and run like a user's schedule, in a process of its own.
// The caller knows the right answers; the process sees one question after the other, and nothing it prints
// counts as an answer.
#pragma once

#include <memory>
#include <utility>

#include "simulator/user_schedule/user_program.h"

namespace flashsim {

class UserFunction {
 public:
  /// Throws UserScheduleError with the compiler's messages. `tools.libraries` bring the main function, which
  /// reads questions from the descriptor that its first argument numbers, and writes an answer to each.
  static UserFunction compile(const std::filesystem::path& file, const UserLimits& limits,
                              const Toolchain& tools) {
    return UserFunction(UserProgram::compile(file, limits, tools));
  }

  /// A running process that answers.
  class Calls {
   public:
    explicit Calls(const UserProgram& user);
    Calls(const Calls&) = delete;
    Calls& operator=(const Calls&) = delete;
    ~Calls();
    /// Sends a question and waits for an answer of exactly `answer_bytes`. Both are plain bytes: whoever asks
    /// must check what the answer says. Throws UserScheduleError where none comes.
    void ask(const void* question, std::size_t bytes, void* answer, std::size_t answer_bytes);

   private:
    const UserProgram& user_;
    int ours_ = -1;
    std::unique_ptr<Process> process_;
    double seconds_left_;
  };
  Calls calls() const { return Calls(user_); }

 private:
  explicit UserFunction(UserProgram user) : user_(std::move(user)) {}
  UserProgram user_;
};

}  // namespace flashsim

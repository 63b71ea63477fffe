// What a submitted schedule may not do, whatever its numbers: write to its inputs, or keep the grader busy or
// out of memory.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "simulator/machine/operation.h"

namespace flashsim::lessons {

/// The schedule broke a rule of grading; what() says which, for the student.
class RuleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How much a schedule may ask of the grader, in one run.
struct Allowance {
  std::int64_t work = 0;           ///< multiply-adds and elements touched
  std::int64_t live_elements = 0;  ///< of all tiles on chip at once
  std::int64_t launches = 64;
  std::int64_t thread_blocks = 100'000;
  int parts = 64;  ///< different Block::part
};

/// Passes on what is allowed; throws RuleError for the rest. Stands before every other executor.
class Guard final : public Executor {
 public:
  /// `read_only`: tensors that are inputs.
  Guard(Executor& next, const Allowance& allowed, const std::array<bool, tensor_count>& read_only)
      : next_(next), allowed_(allowed), read_only_(read_only) {}
  void begin_kernel(const Launch& l) override;
  void begin_block(const ThreadBlock& b) override;
  void execute(const Operation& o) override;
  void allocate_ring(const TileRef& shape, int stages) override;
  void release(const TileRef& t, int role) noexcept override;
  void end_block() override { next_.end_block(); }
  void end_kernel() override { next_.end_kernel(); }

 private:
  void hold(std::int64_t elements);
  Executor& next_;
  const Allowance allowed_;
  const std::array<bool, tensor_count> read_only_;
  std::int64_t work_ = 0, live_ = 0, launches_ = 0, blocks_ = 0;
};

}  // namespace flashsim::lessons

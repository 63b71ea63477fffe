#include "simulator/cli/errors.h"

#include "simulator/executors/memory.h"
#include "simulator/executors/sram.h"
#include "simulator/machine/operation.h"

namespace flashsim::cli {
namespace {
template <class E>
bool is(const std::exception& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}
}  // namespace

ExitCode exit_code_of(const std::exception& error) {
  if (is<OutputClosed>(error)) return ExitCode::ok;
  if (is<UsageError>(error) || is<CapacityError>(error)) return ExitCode::usage;
  if (is<ScheduleError>(error) || is<MemoryError>(error)) return ExitCode::check_failed;
  if (is<GpuNeededError>(error)) return ExitCode::no_gpu;
  return ExitCode::input;  // InputError, ShapeError, no memory, the file system
}

}  // namespace flashsim::cli

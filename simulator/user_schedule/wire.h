// Operations on their way between processes. A schedule of the user's own runs apart from flashsim and sends
// what it issues down a pipe; flashsim executes it. The sender is not trusted: whatever arrives is checked
// before an executor sees it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "simulator/machine/device.h"

namespace flashsim {

/// What arrived is not a schedule's operations: cut short, out of order, about tiles that are not alive, or
/// too much.
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Nothing arrived in time.
class WireTimeout : public WireError {
 public:
  using WireError::WireError;
};

/// The sender has gone before the schedule was finished.
class WireClosed : public WireError {
 public:
  using WireError::WireError;
};

/// Sends every event to a file descriptor. Throws WireError where writing fails (the reader has gone).
class WireWriter final : public Executor {
 public:
  explicit WireWriter(int fd) : fd_(fd) {}
  void begin_kernel(const Launch& l) override;
  void begin_block(const ThreadBlock& b) override;
  void execute(const Operation& o) override;
  void allocate_ring(const TileRef& shape, int stages) override;
  void release(const TileRef& t, int role) noexcept override;
  void end_block() override;
  void end_kernel() override;
  /// The schedule is complete.
  void finish();
  /// The schedule did something impossible; the reader raises ScheduleError with this message.
  void fail(std::string_view message);

 private:
  void send(const void* data, std::size_t bytes);
  void flush();
  int fd_;
  std::vector<char> buffer_;
};

struct WireLimits {
  std::int64_t operations = 2'000'000'000;  ///< refuse more
  double seconds = 3600;                    ///< of waiting for the sender, in all; execution does not count
  Heads heads = Heads::all;                 ///< whose thread blocks may arrive
};

/// Reads events from `fd` until the sender is finished, and passes them to `executor`. Throws ScheduleError
/// (the sender's fault, or an operation that makes no sense), WireError, and what the executor throws
/// (WireTimeout where the sender was waited for too long).
void replay(int fd, const Problem& p, Executor& executor, const WireLimits& limits = {});

}  // namespace flashsim

#include "simulator/user_schedule/user_schedule.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "simulator/user_schedule/wire.h"

namespace flashsim {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    read_end = ends[0];
    write_end = ends[1];
    fcntl(read_end, F_SETFD, FD_CLOEXEC);
    fcntl(write_end, F_SETPIPE_SZ, 1 << 20);  // fewer switches between the two processes
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close(read_end);
    close_write_end();
  }
  void close_write_end() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

struct Request {  // as in driver.cpp
  Problem problem;
  Tiling tiling;
  Heads heads;
};

/// At most `limit`, and on small problems less, so that a loop that issues operations for ever ends soon:
/// even an algorithm that works score by score does less than 64 things with each.
std::int64_t most_operations(const Problem& p, std::int64_t limit) {
  const double scores = double(p.batch) * p.heads_q * (p.seqlen_q + 1.) * (p.seqlen_k + 1.);
  return static_cast<std::int64_t>(std::min(double(limit), 1e6 + 64 * scores));
}

std::string hexadecimal(const Request& r) {
  static constexpr char digits[] = "0123456789abcdef";
  const auto* bytes = reinterpret_cast<const unsigned char*>(&r);
  std::string s;
  for (std::size_t i = 0; i < sizeof r; ++i) {
    s += digits[bytes[i] >> 4];
    s += digits[bytes[i] & 15];
  }
  return s;
}

}  // namespace

Program UserSchedule::program(const Problem& p, const Tiling& t) const {
  return [user = user_, p, t](Executor& executor, Heads heads) {
    Pipe pipe;
    Process process = user.start(pipe.write_end, hexadecimal({p, t, heads}));
    pipe.close_write_end();
    try {
      replay(pipe.read_end, p, executor,
             {.operations = most_operations(p, user.limits().operations),
              .seconds = user.limits().run_seconds,
              .heads = heads});
    } catch (const WireTimeout&) {
      throw UserScheduleError("more than " + user.limits().run_time() +
                              " were spent waiting for operations of " + user.name() +
                              "; does a loop not end?");
    } catch (const WireClosed& e) {
      throw user.broken(process, e.what());
    } catch (const WireError& e) {
      throw UserScheduleError(user.name() + ": " + e.what());
    }
  };
}

}  // namespace flashsim

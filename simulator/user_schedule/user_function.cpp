#include "simulator/user_schedule/user_function.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

namespace flashsim {

UserFunction::Calls::Calls(const UserProgram& user) : user_(user), seconds_left_(user.limits().run_seconds) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  ours_ = ends[0];
  try {
    process_.reset(new Process(user.start(ends[1], "")));
  } catch (...) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  close(ends[1]);
}

UserFunction::Calls::~Calls() { close(ours_); }

void UserFunction::Calls::ask(const void* question, std::size_t bytes, void* answer,
                              std::size_t answer_bytes) {
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto wait_until_ready = [&](short what) {
    pollfd waited{ours_, what, 0};
    for (;;) {
      const double left = seconds_left_ - passed();
      if (!(left > 0))
        throw UserScheduleError(user_.name() + " takes too long to answer; does a loop not end?");
      const int ready = poll(&waited, 1, static_cast<int>(std::min(left * 1000 + 1, 1e6)));
      if (ready > 0) return;
    }
  };
  const auto* from = static_cast<const char*>(question);
  while (bytes > 0) {
    wait_until_ready(POLLOUT);
    const ssize_t n = send(ours_, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) throw user_.broken(*process_, "it ends before it is asked everything");
    from += n;
    bytes -= static_cast<std::size_t>(n);
  }
  auto* to = static_cast<char*>(answer);
  while (answer_bytes > 0) {
    wait_until_ready(POLLIN);
    const ssize_t n = recv(ours_, to, answer_bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) throw user_.broken(*process_, "it ends without an answer");
    to += n;
    answer_bytes -= static_cast<std::size_t>(n);
  }
  seconds_left_ -= passed();
}

}  // namespace flashsim

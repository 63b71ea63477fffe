// How the main functions of exercises 1 and 10 hear questions and answer them: plain bytes on one descriptor.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace given {

/// False where the other side has closed.
inline bool receive(int fd, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = read(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

inline bool answer(int fd, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t n = write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

/// What is asked in exercise 1, followed by `count` scores; the answer is a RowState.
struct SoftmaxQuestion {
  double m, l;
  unsigned count;
};

}  // namespace given

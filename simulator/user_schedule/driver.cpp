// The main function of a user's schedule: runs it and sends what it issues to the file descriptor that
// flashsim opened.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "simulator/machine/device.h"
#include "simulator/user_schedule/wire.h"

/// What the user's file defines.
void schedule(flashsim::Device& gpu, const flashsim::Problem& p, const flashsim::Tiling& t);

namespace {
/// What flashsim asks for, as the bytes of one argument in hexadecimal; both sides are built from the same
/// headers.
struct Request {
  flashsim::Problem problem;
  flashsim::Tiling tiling;
  flashsim::Heads heads;
};
bool read_request(const char* hex, Request& r) {
  if (std::strlen(hex) != 2 * sizeof r) return false;
  auto* bytes = reinterpret_cast<unsigned char*>(&r);
  for (std::size_t i = 0; i < sizeof r; ++i) {
    unsigned value = 0;
    if (std::sscanf(hex + 2 * i, "%2x", &value) != 1) return false;
    bytes[i] = static_cast<unsigned char>(value);
  }
  return true;
}
}  // namespace

int main(int argc, char** argv) {
  Request request;
  if (argc != 3 || !read_request(argv[2], request)) {
    std::fputs("this program is started by flashsim --schedule\n", stderr);
    return 2;
  }
  flashsim::WireWriter out(std::atoi(argv[1]));
  try {
    flashsim::SerialDevice gpu(request.problem, out, request.heads);
    schedule(gpu, request.problem, request.tiling);
    out.finish();
  } catch (const flashsim::WireError&) {
    return 3;  // flashsim has stopped listening, and knows why
  } catch (const std::exception& e) {
    out.fail(e.what());
    return 1;
  }
  return 0;
}

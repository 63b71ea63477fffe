// How launches are timed so that the state of the card does not decide. Under load it runs into its power
// limit, a rested one runs at its highest clock, and the first launches after a rest ramp the clock up. So
// launches are counted in blocks that are all alike: a rest, launches uncounted for some milliseconds, then
// launches counted for as long (as in gpu_kernels/measure/protocol.py).
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace flashsim::gpu {

inline void rest_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Seconds of `repeats` (at least 1) counted launches. `run` launches once and returns the seconds it took. A
/// block rests 50 ms, then launches uncounted until 10 ms and `warmup` launches are over, then counts until
/// 10 ms and five launches are over; the last block ends where there are enough.
inline std::vector<double> in_rested_blocks(int warmup, int repeats, const std::function<double()>& run,
                                            const std::function<void(double)>& rest = rest_for) {
  constexpr double kRest = 0.05, kUncounted = 0.01, kCounted = 0.01;
  constexpr int kFewest = 5;
  std::vector<double> seconds;
  const auto enough = [&] { return static_cast<int>(seconds.size()) >= repeats; };
  while (!enough()) {
    rest(kRest);
    double spent = 0;
    for (int i = 0; i < warmup || spent < kUncounted; ++i) spent += run();
    spent = 0;
    for (int i = 0; !enough() && (i < kFewest || spent < kCounted); ++i) {
      seconds.push_back(run());
      spent += seconds.back();
    }
  }
  return seconds;
}

}  // namespace flashsim::gpu

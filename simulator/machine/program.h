// A schedule bound to a problem and a tiling, wherever it runs: in this process or in one of its own.
#pragma once

#include <functional>

#include "simulator/machine/device.h"

namespace flashsim {

/// Issues every operation of a schedule to an executor, for one K/V head or for all.
using Program = std::function<void(Executor&, Heads)>;

/// The program of a schedule in this process.
inline Program program_of(void (*schedule)(Device&, const Problem&, const Tiling&), const Problem& p,
                          const Tiling& t) {
  return [schedule, p, t](Executor& executor, Heads heads) {
    SerialDevice gpu(p, executor, heads);
    schedule(gpu, p, t);
  };
}

}  // namespace flashsim

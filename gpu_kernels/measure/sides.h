// How long each SM waits for lines of L2: what tells on which side of a divided L2 it sits.
#pragma once

#include <vector>

namespace flashsim::gpu {

/// How long one SM waits for each of the same lines.
struct SmLatencies {
  int sm = 0;                  ///< the hardware's number of the SM
  std::vector<double> cycles;  ///< by line: the fastest of several atomic additions that return the old value
};

/// In the order in which the thread blocks of a launch take the SMs, one block on each. Atomic additions are
/// done where a line is at home, so an SM waits longer for lines whose home is on the other side. `lines` of
/// them (at least 1), 8 KiB apart. Throws CudaError.
std::vector<SmLatencies> measure_sm_latencies(int lines = 512);

/// The hardware's number of the SM on which each thread block of a launch runs: `blocks` of them (at least
/// 1), all at once, at most one on an SM. Throws CudaError.
std::vector<int> sms_of_launch(int blocks);

}  // namespace flashsim::gpu

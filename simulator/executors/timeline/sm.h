// Replays the streams of thread blocks that share one SM.
#pragma once

#include "simulator/executors/timeline/block_streams.h"

namespace flashsim::timeline {

/// The kernel's chosen thread blocks in their order, at most `resident` at once: the next one starts when one
/// ends. Throws ScheduleError where every warpgroup waits for another.
KernelTimeline replay(const KernelStreams& kernel, const Request& request, int resident);

}  // namespace flashsim::timeline

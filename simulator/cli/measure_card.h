// This machine's card, measured: what its L2 holds and how it is divided.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu_kernels/measure/sides.h"
#include "simulator/executors/l2/card.h"

namespace flashsim::cli {

/// Re-reads buffers of these sizes, and finds the side of L2 on which each thread block of small launches
/// sits. Throws what gpu::measure_reread and gpu::measure_sm_latencies throw.
Card measure_card(const std::vector<std::int64_t>& buffer_bytes, int repeats);

/// The side of each thread block of launches, given as the SMs on which their blocks run. Empty where the
/// waits do not tell two sides apart. Throws std::invalid_argument where an SM has no waits.
std::vector<std::vector<int>> sides_of_launches(const std::vector<gpu::SmLatencies>& waits,
                                                const std::vector<std::vector<int>>& launches);

}  // namespace flashsim::cli

// Counters of this machine's GPU around kernels of the registry, as records.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpu_kernels/check/chosen_order.h"
#include "gpu_kernels/measure/measure.h"
#include "simulator/compare/record.h"

namespace flashsim::cli {

/// Why this machine cannot measure; empty where it can.
std::string why_no_measurement();

/// Launches of a case that are measured unless somebody asks for another number.
inline constexpr int default_launches = 3;

/// A line for a person after each case, e.g. "[3/226] fa2, batch 1, ...".
using Progress = std::function<void(const std::string&)>;

/// Measures every case that its kernel computes on this GPU; the others, and those that do not fit its
/// memory, are named through `progress`. `order` replaces the kernels' own order of thread blocks. Every case
/// is measured in `launches` launches (>= 1); where those (2 or more) leave their median of DRAM bytes
/// unknown (settled()), in up to four times as many, within 2 seconds. The tensors lie at another place in
/// memory in each, side by side, or with gaps between them (gpu::Layout). Throws GpuNeededError where nothing
/// can be measured.
Records measure_cases(const std::vector<KernelCase>& cases, const gpu::ChosenOrder& order, int launches,
                      const Progress& progress, bool tensors_apart = false);

/// The same counts under the names that records have.
Observed observed_of(const gpu::Counts& counts);

}  // namespace flashsim::cli

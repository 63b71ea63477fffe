// Runs a schedule for one K/V head with numbers, bytes and SRAM, and records a frame for every step.
#pragma once

#include <string>
#include <vector>

#include "simulator/executors/recording.h"
#include "simulator/machine/program.h"

namespace flashsim {

struct RecordRequest {
  Program schedule;  ///< bound to `problem` and `tiling`, as the other two
  Program before;    ///< run first and not recorded: the forward pass of a backward one; may be empty
  Program standard;  ///< whose bytes stand beside the recorded ones; may be empty
  Problem problem;
  Tiling tiling;
  bool backward = false;
  int head = 0;  ///< query head, counted over the batch: batch index * heads_q + head
  Placement placement = Placement::paper;
  std::int64_t capacity = 0;  ///< bytes of SRAM; exceeding it throws CapacityError under Placement::kernel
  /// Contiguous tensors in Problem's shapes; rounded to the dtype they have in HBM. d_o for backward only.
  const std::vector<double>*q = nullptr, *k = nullptr, *v = nullptr, *d_o = nullptr;
};

/// Empty, or why a recording of this problem would be too large.
std::string fault_of_recording(const Problem& p, const Tiling& t);

/// Throws what programs and executors throw, ShapeError where tensors do not fit the problem,
/// std::length_error where fault_of_recording is not empty or a program makes more than a million steps, and
/// ScheduleError where it makes none.
Recording record(const RecordRequest& request);

}  // namespace flashsim

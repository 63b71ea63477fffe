#pragma once

#include <string>
#include <vector>

#include "simulator/cli/json.h"
#include "simulator/cli/step_frame.h"

namespace flashsim::cli {

/// A frame as an object: position, operations, SRAM, rows, bytes, errors. Steps count from 1, all else from
/// 0. `rows`: the rows whose statistics are listed; empty: all of the step. Infinities and NaN are strings
/// ("-inf", "nan"), since JSON has no such numbers.
Json json_of_frame(const Recording& r, std::size_t frame, const std::vector<int>& rows);

/// Frames of json_of_frame as CSV for a spreadsheet, a number a line: step, what it is about (position,
/// operation, row, output, ...), its name, quantity, value.
std::string csv_of_frames(const Json& frames);

}  // namespace flashsim::cli

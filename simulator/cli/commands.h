// The commands, each defined in the file of its name.
#pragma once

#include "simulator/cli/command.h"

namespace flashsim::cli {

Command algorithms_command();
Command bench_command();
Command check_command();
Command compare_command();
Command doctor_command();
Command exercise_command();
Command gpus_command();
Command grade_command();
Command kernels_command();
Command measure_command();
Command softmax_command();
Command step_command();
Command sweep_l2_command();
Command lesson_command();
Command trace_command();
Command traffic_command();

}  // namespace flashsim::cli

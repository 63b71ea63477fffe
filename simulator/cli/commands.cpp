#include "simulator/cli/commands.h"

namespace flashsim::cli {

std::vector<Command> commands() {
  return {
      step_command(),     softmax_command(), traffic_command(),  trace_command(),
      check_command(),    compare_command(), measure_command(),  lesson_command(),
      exercise_command(), grade_command(),   sweep_l2_command(), algorithms_command(),
      gpus_command(),     kernels_command(), bench_command(),    doctor_command(),
  };
}

}  // namespace flashsim::cli

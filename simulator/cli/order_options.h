// The options that choose in which order the thread blocks of a CUDA kernel start, the same in every command.
#pragma once

#include <string>

#include "gpu_kernels/check/chosen_order.h"
#include "simulator/cli/options.h"

namespace flashsim::cli {

/// --order.
template <class Order>
void declare_order(Options& options, Order& into, const std::string& help) {
  options.choice("--order", into,
                 std::vector<std::pair<std::string, BlockOrder>>{
                     {gpu::name_of(BlockOrder::first_to_last), BlockOrder::first_to_last},
                     {gpu::name_of(BlockOrder::last_to_first), BlockOrder::last_to_first}},
                 help);
}
/// --heads-together.
void declare_heads_together(Options& options, gpu::ChosenOrder& into);
/// Both.
void declare(Options& options, gpu::ChosenOrder& into);

/// As on the command line: " --order first-to-last --heads-together 3"; empty where nothing was asked for.
std::string command_line_of(const gpu::ChosenOrder& chosen);

}  // namespace flashsim::cli

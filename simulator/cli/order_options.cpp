#include "simulator/cli/order_options.h"

#include <fmt/format.h>

namespace flashsim::cli {

void declare_heads_together(Options& options, gpu::ChosenOrder& into) {
  options.integer("--heads-together", into.heads_together, 1, 1 << 30,
                  "query heads whose thread blocks take turns, instead of the kernel's own (fa2 forward; fa3 "
                  "under a mask)");
}

void declare(Options& options, gpu::ChosenOrder& into) {
  declare_order(
      options, into.order,
      "order of the thread blocks, instead of the kernel's own (fa2; fa3 under a mask in fp16 and bf16)");
  declare_heads_together(options, into);
}

std::string command_line_of(const gpu::ChosenOrder& chosen) {
  return (chosen.order ? fmt::format(" --order {}", gpu::name_of(*chosen.order)) : "") +
         (chosen.heads_together ? fmt::format(" --heads-together {}", *chosen.heads_together) : "");
}

}  // namespace flashsim::cli

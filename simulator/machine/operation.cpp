#include "simulator/machine/operation.h"

#include <array>

namespace flashsim {

std::string_view name_of(Op op) {
  static constexpr std::array<std::string_view, static_cast<int>(Op::count)> names = {
      "load",     "store",   "reduce_add", "reduce_max",     "fill",
      "copy",     "convert", "matmul_nt",  "add_matmul",     "add_matmul_tn",
      "mask",     "dropout", "exp",        "exp_difference", "softmax_gradient",
      "multiply", "row_max", "row_sum",    "add_row_sum",    "row_dot",
      "max",      "add",     "scale_rows", "divide_rows",    "log_sum",
      "rotate",   "abs_max", "quantise",   "scale_all",      "take",
      "wait"};
  return names[static_cast<int>(op)];
}

}  // namespace flashsim

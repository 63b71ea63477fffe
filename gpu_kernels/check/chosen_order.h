// In which order the thread blocks of a launch are to start, where that is not the kernel's own.
#pragma once

#include <optional>
#include <string>

#include "cpu_reference/problem.h"

namespace flashsim::gpu {

constexpr const char* name_of(BlockOrder order) {
  return order == BlockOrder::first_to_last ? "first-to-last" : "last-to-first";
}

/// What was asked for; what is empty stays as the kernel has it.
struct ChosenOrder {
  std::optional<BlockOrder> order;    ///< Tiling::order
  std::optional<int> heads_together;  ///< Tiling::heads_together, >= 1

  bool given() const { return order || heads_together; }
  /// `t` with it. Whether a kernel can is for Kernel::fault to say.
  Tiling of(Tiling t) const {
    t.order = order.value_or(t.order);
    t.heads_together = heads_together.value_or(t.heads_together);
    return t;
  }
};

/// "first-to-last, 3 heads together"; empty where nothing was asked for.
inline std::string describe(const ChosenOrder& c) {
  std::string s = c.order ? name_of(*c.order) : "";
  if (c.heads_together)
    s += (s.empty() ? "" : ", ") + std::to_string(*c.heads_together) +
         (*c.heads_together == 1 ? " head at a time" : " heads together");
  return s;
}

}  // namespace flashsim::gpu

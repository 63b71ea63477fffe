#include "simulator/executors/l2/placement.h"

#include <algorithm>

#include "simulator/executors/l2/draws.h"

namespace flashsim::l2 {

Placement::Placement(std::uint32_t sets, std::uint64_t seed)
    : sets_(sets),
      seed_(seed),
      window_(std::max<std::uint64_t>(1, (sets_ * (parts - 1) + parts / 2) / parts)),
      rows_(std::min(most_rows, window_ & (~window_ + 1))) {}

std::uint32_t Placement::set_of(std::uint64_t pair) const {
  const std::uint64_t n = pair / window_, in_window = pair % window_, row_length = window_ / rows_,
                      row = in_window / row_length, mixed_row = row ^ (scatter(n ^ seed_) % rows_),
                      in_row = (in_window + scatter((n * most_rows + row) ^ ~seed_)) % row_length;
  return static_cast<std::uint32_t>((n * window_ + mixed_row * row_length + in_row) % sets_);
}

}  // namespace flashsim::l2

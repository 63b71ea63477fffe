// The records that flashsim compares with where no GPU can be measured on, and what was measured of that
// card's L2, built in: an installed flashsim, or a copy of the executable, has them without a file beside it.
#pragma once

#include <string_view>

namespace flashsim {

/// The file of docs/measurements with that name; "h200_kernels.json" or "h200_l2_card.json". Throws
/// std::out_of_range where there is none.
std::string_view shipped_records(std::string_view name);

}  // namespace flashsim

// When are a few values enough to know their median?
#pragma once

#include <vector>

namespace flashsim {

/// Whether the median of such values (bytes; at least one) is known: they lie within 3 % or 1 MB, or there
/// are enough of them (7 or more) that its standard error, 1.25 s / sqrt(n) of n values with standard
/// deviation s, is at most 3 % or 1 MB. NaNs are not asked.
bool settled(const std::vector<double>& values);

}  // namespace flashsim

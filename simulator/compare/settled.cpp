#include "simulator/compare/settled.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace flashsim {

bool settled(const std::vector<double>& values) {
  constexpr double share = 0.03, bytes = 1e6;
  std::vector<double> known;
  std::copy_if(values.begin(), values.end(), std::back_inserter(known),
               [](double x) { return std::isfinite(x); });
  if (known.empty()) return true;
  const auto [least, most] = std::minmax_element(known.begin(), known.end());
  if (*most <= *least + std::max(share * *least, bytes)) return true;
  const auto n = static_cast<double>(known.size());
  if (n < 7) return false;
  const double mean = std::accumulate(known.begin(), known.end(), 0.) / n;
  const double squares = std::accumulate(known.begin(), known.end(), 0.,
                                         [&](double sum, double x) { return sum + (x - mean) * (x - mean); });
  return 1.25 * std::sqrt(squares / (n - 1) / n) <= std::max(share * mean, bytes);
}

}  // namespace flashsim

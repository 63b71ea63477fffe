#include "lessons/grader/diagnosis.h"

#include <algorithm>
#include <cmath>

namespace flashsim::lessons {
namespace {

/// How far two results are apart, relative to the largest finite number; infinite where NaN or infinities
/// stand in other places. Rounding leaves far less than different mistakes do, so a loose bound serves.
constexpr double alike = 1e-3;

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return infinity;
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) != std::isfinite(b[i])) return infinity;
    if (!std::isfinite(a[i])) continue;
    largest = std::max(largest, std::abs(b[i]));
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return apart == 0 ? 0 : apart / largest;
}

double distance(const Run& a, const Run& b) {
  if (!a.fault.empty() || !b.fault.empty() || a.outputs.size() != b.outputs.size()) return infinity;
  double apart = 0;
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    apart = std::max(apart, distance(a.outputs[i], b.outputs[i]));
  return apart;
}

}  // namespace

const Mistake* recognise(const Rubric& rubric, const Case& c, const Truth& truth, const Run& run,
                         const Run& reference) {
  if (!run.fault.empty()) return nullptr;
  const Mistake* found = nullptr;
  double nearest = alike;
  for (const Mistake& m : rubric.mistakes) {
    if ((m.seen_in != nullptr) != run.right()) continue;
    if (m.seen_in != nullptr) {
      if (m.seen_in(run.traffic, reference.traffic)) return &m;
      continue;
    }
    const Run wrong = run_reference(m.schedule, c, truth);
    if (wrong.right()) continue;  // on this case the mistake makes no difference
    if (const double d = distance(run, wrong); d < nearest) {
      nearest = d;
      found = &m;
    }
  }
  return found;
}

}  // namespace flashsim::lessons

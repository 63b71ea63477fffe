// Wrong kernels of exercise 11, lane by lane as a warp does it.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lessons/grader/mistakes_cuda.h"

namespace flashsim::lessons {
namespace {

constexpr int lanes = 32;

struct Pair {
  double m = -infinity, l = 0;
};

/// A lane's own pair and another, which may be one score with l = 1.
Pair merge(Pair own, Pair other, Factors f, bool guarded) {
  const double m = std::max(own.m, other.m);
  if (m == -infinity && guarded) return own;
  const double sign = f == Factors::inverted ? -1 : 1;
  if (f != Factors::none && f != Factors::only_theirs) own.l *= std::exp(sign * (own.m - m));
  if (f != Factors::none && f != Factors::only_own) other.l *= std::exp(sign * (other.m - m));
  return {m, own.l + other.l};
}

Pair of_row(const double* x, int cols, const RowsKernel& k) {
  const int end = k.one_column_each ? std::min(cols, lanes) : k.tail ? cols : cols / lanes * lanes;
  std::array<Pair, lanes> lane;
  lane.fill({k.first_m, 0});
  for (int c = 0; c < end; ++c) {
    Pair& own = lane[static_cast<std::size_t>(c % lanes)];
    own = k.maximum_in_exp ? merge(own, {x[c], 1}, k.in_lane, k.guarded)
                           : Pair{std::max(own.m, x[c]), own.l + std::exp(x[c])};
  }
  for (int offset = lanes / 2; offset >= k.last_offset; offset /= 2) {
    const std::array<Pair, lanes> before = lane;
    for (int i = 0; i < lanes; ++i) {
      Pair& own = lane[static_cast<std::size_t>(i)];
      const Pair& other = before[static_cast<std::size_t>(i ^ offset)];
      const Pair both = k.maximum_in_exp ? merge(own, other, k.between_lanes, k.guarded)
                                         : Pair{std::max(own.m, other.m), own.l + other.l};
      if (k.sums == Sums::merged) own.l = both.l;
      if (k.sums == Sums::own_rescaled && both.m > -infinity) own.l *= std::exp(own.m - both.m);
      if (k.maxima_merged) own.m = both.m;
    }
  }
  if (k.sums == Sums::never) lane[0].l = 0;
  return lane[0];
}

/// A finite "minus infinity", of which many are in use, is one mistake.
double with_one_lowest(double m) {
  return m < -1e4 && std::isfinite(m) ? std::numeric_limits<float>::lowest() : m;
}

/// Equal up to what roundings leave, which is far less than what mistakes do.
bool alike(const RowResults& a, const RowResults& b) {
  const auto same = [](double x, double y) {
    if (!std::isfinite(x) || !std::isfinite(y)) return x == y || (std::isnan(x) && std::isnan(y));
    return std::abs(x - y) <= 1e-3 * std::abs(y);
  };
  if (a.first.size() != b.first.size() || a.second.size() != b.second.size()) return false;
  for (std::size_t i = 0; i < a.first.size(); ++i)
    if (!same(with_one_lowest(a.first[i]), with_one_lowest(b.first[i])) || !same(a.second[i], b.second[i]))
      return false;
  return true;
}

}  // namespace

RowResults results_of(const RowsKernel& kernel, const std::vector<double>& scores, int cols) {
  RowResults r;
  for (std::size_t at = 0; at < scores.size(); at += static_cast<std::size_t>(cols)) {
    const Pair row = of_row(scores.data() + at, cols, kernel);
    // As fp32 holds them: what overflows there is infinite.
    r.first.push_back(static_cast<float>(row.m));
    r.second.push_back(static_cast<float>(row.l));
  }
  return r;
}

const std::vector<RowsMistake>& rows_mistakes() {
  using F = Factors;
  const char* const merging =
      "Two lanes have different maxima: before their sums are added, each must be multiplied by expf(its own "
      "m "
      "- the larger m).";
  const char* const in_lane =
      "Within a lane l was summed with the old maximum: l = l * expf(m - m_new) + expf(x - m_new).";
  static const std::vector<RowsMistake> all = {
      {"the lanes' sums are not rescaled when they are merged", merging, {.between_lanes = F::none}},
      {"one of two lanes' sums is not rescaled when they are merged",
       merging,
       {.between_lanes = F::only_theirs}},
      {"one of two lanes' sums is not rescaled when they are merged",
       merging,
       {.between_lanes = F::only_own}},
      {"a lane's l is not rescaled when its maximum grows", in_lane, {.in_lane = F::only_theirs}},
      {"l is not rescaled, neither in a lane nor between lanes",
       in_lane + std::string(" ") + merging,
       {.in_lane = F::only_theirs, .between_lanes = F::none}},
      {"l is not rescaled, neither in a lane nor between lanes",
       in_lane + std::string(" ") + merging,
       {.in_lane = F::only_theirs, .between_lanes = F::only_theirs}},
      {"l counts the columns: no exponential is taken",
       "A score adds expf(x - m_new) to l, not 1, and what was summed before is multiplied by expf(m - "
       "m_new).",
       {.in_lane = F::none, .between_lanes = F::none}},
      {"-infinity is subtracted from -infinity",
       "That is NaN. A lane without columns, or with hidden ones only, has m = -infinity and l = 0: leave "
       "both "
       "alone while the larger maximum is -infinity.",
       {.guarded = false}},
      {"the factor is inverted",
       "The factor is expf(m - m_new), old minus new, at most 1. Put two numbers in.",
       {.in_lane = F::inverted, .between_lanes = F::inverted}},
      {"the factor is inverted",
       "Between lanes it is expf(m - m_new) too, own minus larger, at most 1.",
       {.between_lanes = F::inverted}},
      {"no maximum is subtracted",
       "expf(x) overflows for x above 88. expf(x - m) never does.",
       {.maximum_in_exp = false}},
      {"m begins with 0",
       "A row may hold only negative scores: the maximum of nothing is -INFINITY.",
       {.first_m = 0}},
      {"m begins with a finite number",
       "A row may hold nothing that is visible; its m is -infinity, so m begins with -INFINITY.",
       {.first_m = std::numeric_limits<float>::lowest()}},
      {"the tail is missing: columns behind the last multiple of 32",
       "The lanes go on while their own column is less than cols, whatever the others' are.",
       {.tail = false}},
      {"each lane reads one column only",
       "A row may be longer than a warp: go on with c += 32.",
       {.one_column_each = true}},
      {"the lanes are not merged",
       "Lane 0 writes its own pair, of columns 0, 32, 64, ...: 31 others hold the rest of the row.",
       {.sums = Sums::own, .maxima_merged = false}},
      {"the lanes' sums are not added up",
       "The maximum is right. l is lane 0's own: merge both numbers of a pair, in the same step.",
       {.sums = Sums::own}},
      {"the lanes' sums are not added up",
       "The maximum is right. l is lane 0's own: merge both numbers of a pair, in the same step.",
       {.sums = Sums::own_rescaled}},
      {"a step of the merge is missing",
       "32 lanes need five steps: offsets 16, 8, 4, 2 and 1.",
       {.last_offset = 2}},
      {"l stays 0", "The maximum is right; each score adds expf(x - m_new) to l.", {.sums = Sums::never}}};
  return all;
}

const RowsMistake* recognise_rows(const std::vector<double>& scores, int cols, const RowResults& got) {
  const RowResults right = results_of({}, scores, cols);
  if (alike(got, right)) return nullptr;
  for (const RowsMistake& m : rows_mistakes()) {
    const RowResults wrong = results_of(m.kernel, scores, cols);
    if (!alike(wrong, right) && alike(got, wrong)) return &m;
  }
  return nullptr;
}

}  // namespace flashsim::lessons

#include "lessons/grader/measure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace flashsim::lessons {
namespace {

std::string text_of(const char* format, double x) {
  char text[64];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

std::string place_of(const Comparison& c, const Problem& p) {
  const std::int64_t cols = is_row_vector(c.result) ? 1 : p.head_dim;
  const std::int64_t rows = is_key_side(c.result) ? p.seqlen_k : p.seqlen_q;
  const std::int64_t heads = heads_of(c.result, p), row = c.at / cols;
  std::string s;
  if (p.batch > 1) s += "batch " + std::to_string(row / rows / heads) + ", ";
  if (heads > 1) s += "head " + std::to_string(row / rows % heads) + ", ";
  s += "row " + std::to_string(row % rows);
  if (cols > 1) s += ", column " + std::to_string(c.at % cols);
  return s;
}

/// All points up to `full` times the reference, half up to `half` times.
void by_ratio(CheckGrade& g, std::int64_t got, std::int64_t reference, double full, double half,
              const char* what) {
  const double ratio = static_cast<double>(got) / static_cast<double>(std::max<std::int64_t>(1, reference));
  if (ratio <= full) {
    g.earned = g.points;
    return;
  }
  if (ratio <= half) g.earned = g.points / 2;
  g.message = std::to_string(got) + " " + what + ", " + text_of("%.2f", ratio) + " times the " +
              std::to_string(reference) + " that are enough";
}

}  // namespace

std::string difference_of(const Comparison& c, const Problem& p, bool show_numbers) {
  std::string s = std::string(name_of(c.result)) + " is wrong, most at " + place_of(c, p) + ": ";
  if (std::isnan(c.got)) return s + "it is NaN";
  if (std::isinf(c.got)) return s + "it is infinite";
  if (show_numbers)
    return s + text_of("%.6g", c.got) + ", expected " + text_of("%.6g", c.expected) + " within " +
           text_of("%.1g", c.tolerance);
  return s + "off by " + text_of("%.3g", c.error) + ", allowed are " + text_of("%.1g", c.tolerance);
}

std::string points_text(double points) { return text_of("%.4g", points); }

CheckGrade grade_check(const Check& check, const Case& c, const Run& run, const Run& reference,
                       bool show_numbers) {
  CheckGrade g{check.name, check.points, 0, {}};
  if (!run.fault.empty()) {
    g.message = run.fault;
    return g;
  }
  if (!run.right()) {
    if (check.measure != Measure::result) {
      g.message = "not judged: the result is wrong (" + c.name + ")";
      return g;
    }
    for (const Comparison& x : run.results)
      if (!x.ok()) g.message += (g.message.empty() ? "" : "; ") + difference_of(x, c.p, show_numbers);
    return g;
  }
  switch (check.measure) {
    case Measure::result: g.earned = g.points; break;
    case Measure::statistics:
      if (run.statistics_compared == 0)
        g.message =
            "no second tile of K is loaded while one block of Q is on chip, so there is nothing to compare";
      else if (!run.statistics_fault.empty())
        g.message = run.statistics_fault;
      else if (run.statistics_compared < reference.statistics_compared)
        g.message = "m and l could be compared after " + std::to_string(run.statistics_compared) +
                    " tiles only, of " + std::to_string(reference.statistics_compared) +
                    ": some tiles of K are not loaded one by one while their block of Q is on chip";
      else
        g.earned = g.points;
      break;
    case Measure::bytes:
      by_ratio(g, run.traffic.requested_bytes(), reference.traffic.requested_bytes(), 1, 1.25,
               "requested bytes");
      break;
    case Measure::sram:
      by_ratio(g, run.peak_sram, reference.peak_sram, 1.25, 1.75, "bytes on chip at once");
      break;
    case Measure::other_flops:
      by_ratio(g, run.traffic.other_flops, reference.traffic.other_flops, 1.05, 1.25,
               "FLOPs outside matrix products");
      break;
    case Measure::no_scores:
      for (int i = 0; i < tensor_count; ++i)
        if (is_score_shaped(static_cast<Tensor>(i)) && run.traffic.tensor[i].bytes() > 0)
          g.message =
              std::string(name_of(static_cast<Tensor>(i))) +
              ", (seqlen_q, seqlen_k), goes through HBM: " + std::to_string(run.traffic.tensor[i].bytes()) +
              " bytes";
      if (g.message.empty()) g.earned = g.points;
      break;
    case Measure::parallel:
      if (run.sharing >= 0.95 * reference.sharing)
        g.earned = g.points;
      else
        g.message = "the busiest thread block does so much that " + text_of("%.3g", run.sharing) +
                    " of its kind could share all of the work; " + text_of("%.3g", reference.sharing) +
                    " can do so at the same time";
      break;
  }
  return g;
}

}  // namespace flashsim::lessons

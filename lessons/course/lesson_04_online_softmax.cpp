// Lesson 4: online softmax. Running maximum m and sum l, and the factor that repairs what came before.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cpu_reference/rounding.h"
#include "cpu_reference/softmax.h"
#include "lessons/course/lesson.h"

namespace flashsim::course {
namespace {

std::string shown(double x) { return std::isinf(x) ? (x < 0 ? "-inf" : "inf") : fmt::format("{:.4g}", x); }

std::string shown_difference(double x) { return x == 0 ? "0" : fmt::format("{:.1e}", x); }

Table steps_table(const ChunkedSoftmax& run, const std::vector<double>& scores) {
  Table t{{"<scores", "max", "m before", "m", "factor", "chunk's sum", "l"}, {}};
  for (const OnlineStep& step : run.steps) {
    std::string chunk;
    for (int i = step.first; i < step.first + step.count && chunk.size() < 18; ++i)
      chunk += (chunk.empty() ? "" : " ") + shown(scores[static_cast<std::size_t>(i)]);
    t.rows.push_back({chunk, shown(step.chunk_max), shown(step.m_before), shown(step.m), shown(step.rescale),
                      shown(step.chunk_sum), shown(step.l)});
  }
  // A screen has room for so many.
  if (t.rows.size() > 10) {
    t.rows.resize(10);
    t.rows.push_back({"..."});
  }
  return t;
}

/// What l would be if nothing were rescaled.
double without_rescale(const ChunkedSoftmax& run) {
  double l = 0;
  for (const OnlineStep& step : run.steps) l += step.chunk_sum;
  return l;
}

}  // namespace

Facts lesson_online_softmax(const Settings& s) {
  Facts facts;
  const ChunkedSoftmax run = chunked_softmax(s.scores, s.chunk);
  const OnlineStep& last = run.steps.back();
  const auto smallest = std::min_element(run.steps.begin() + (run.steps.size() > 1 ? 1 : 0), run.steps.end(),
                                         [](const auto& a, const auto& b) { return a.rescale < b.rescale; });
  facts.table("steps", steps_table(run, s.scores));
  facts.answer("factor", smallest->rescale, "", 0.05, "{:.3f}");
  facts.number("factor_from", smallest->m_before, "{:.4g}");
  facts.number("factor_to", smallest->m, "{:.4g}");
  facts.answer("sum", last.l, "", 0.05, "{:.3f}");
  facts.number("m", last.m, "{:.4g}");
  facts.number("lse", last.m + std::log(last.l), "{:.4f}");
  facts.number("wrong_sum", without_rescale(run), "{:.3f}");
  facts.number("count", double(s.scores.size()), "{:.0f}");
  facts.number("chunks", double(run.steps.size()), "{:.0f}");

  const std::vector<double> full = safe_softmax(s.scores).y;
  double worst = 0, sum = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    worst = std::max(worst, std::abs(full[i] - run.weights[i]));
    sum += run.weights[i];
  }
  facts.number("difference", worst, "{:.1e}");
  facts.text("difference", shown_difference(worst));
  facts.number("weight_sum", sum, "{:.6f}");

  Table chunks{{"chunk", "steps", "m", "l", "largest difference"}, {}};
  for (const int chunk : {1, 2, 3, 4, static_cast<int>(s.scores.size())}) {
    const ChunkedSoftmax other = chunked_softmax(s.scores, chunk);
    double most = 0;
    for (std::size_t i = 0; i < full.size(); ++i) most = std::max(most, std::abs(full[i] - other.weights[i]));
    chunks.rows.push_back({std::to_string(chunk), std::to_string(other.steps.size()),
                           shown(other.steps.back().m), fmt::format("{:.12f}", other.steps.back().l),
                           shown_difference(most)});
  }
  facts.table("chunks", chunks);

  const std::vector<double> many(4096, 0.5);
  Table passes{{"<way", "reads", "writes", "an element"}, {}};
  const auto add = [&](const char* name, const Accesses& a) {
    passes.rows.push_back({name, std::to_string(a.reads / 4096), std::to_string(a.writes / 4096),
                           fmt::format("{:.0f}", a.per_element(many.size()))});
  };
  add("naive: sum, divide (overflows)", naive_softmax(many).accesses);
  add("safe: maximum, sum, divide", safe_softmax(many).accesses);
  add("online: maximum and sum at once, divide", online_softmax(many).accesses);
  facts.table("passes", passes);
  facts.answer("overflow", std::log(largest_finite(Dtype::fp16)), "", 0.02, "{:.2f}");
  facts.number("fp16_largest", largest_finite(Dtype::fp16), "{:.0f}");

  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.id = "weights";
  chart.title = fmt::format("Softmax weights of {} scores, in chunks of {}", s.scores.size(), s.chunk);
  chart.x_label = "score";
  chart.y_label = "weight";
  chart.source =
      fmt::format("flashsim lesson run 4 --scores {} --chunk {}", fmt::join(s.scores, ","), s.chunk);
  chart.series.push_back({"all at once", {}, full});
  chart.series.push_back({"chunk by chunk", {}, run.weights});
  for (const double x : s.scores) chart.categories.push_back(shown(x));
  facts.chart(chart);
  return facts;
}

}  // namespace flashsim::course

// Lesson 6: FlashAttention computes attention, up to rounding. Block sizes, dtypes, ragged lengths, rows that
// see nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cpu_reference/random.h"
#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "simulator/executors/exactness.h"

namespace flashsim::course {
namespace {

std::vector<double> random(std::uint64_t seed, std::uint32_t id, std::int64_t n) {
  return random_tensor(Distribution::normal, seed, id, static_cast<std::size_t>(n));
}

Truth truth(const Problem& p, std::uint64_t seed) {
  const std::int64_t q = std::int64_t{p.seqlen_q} * p.head_dim, k = std::int64_t{p.seqlen_k} * p.head_dim;
  return truth_of(p, random(seed, tensor_id::q, q), random(seed, tensor_id::k, k),
                  random(seed, tensor_id::v, k), {});
}

/// Largest error of O, and what the derived tolerance allows.
Comparison error_of(const char* algorithm, const Problem& p, const Tiling& t, std::uint64_t seed) {
  const Algorithm& a = *find_algorithm(algorithm);
  return check_forward(program_of(a.forward, p, t), roundings_of(a, p, t), p, t, truth(p, seed)).front();
}

std::string shown(double x) { return x == 0 ? "0" : fmt::format("{:.1e}", x); }

}  // namespace

Facts lesson_exactness(const Settings& s) {
  Facts facts;
  Problem p = heads_of_length(1, s.n, s.d);

  Table algorithms{{"<algorithm", "fp64", "fp32", "fp16", "bf16", "fp16 may be"}, {}};
  for (const char* name : {"standard", "fa1", "fa2", "fa3"}) {
    std::vector<std::string> row = {name};
    double allowed = 0;
    for (const Dtype dtype : {Dtype::fp64, Dtype::fp32, Dtype::fp16, Dtype::bf16}) {
      p.dtype = dtype;
      Tiling t = square(p, s.block);
      if (std::string_view(name) == "fa3") t.stages = 2;
      const Comparison c = error_of(name, p, t, s.seed);
      row.push_back(shown(c.error));
      if (dtype == Dtype::fp16) allowed = c.tolerance;
      if (dtype == Dtype::fp64 && std::string_view(name) == "fa2") {
        facts.answer("exponent", std::floor(std::log10(c.error)), "", 0.08, "{:.0f}");
        facts.text("error64", shown(c.error));
      }
      if (dtype == Dtype::fp16) facts.number(fmt::format("error16_{}", name), c.error, "{:.1e}");
    }
    row.push_back(shown(allowed));
    algorithms.rows.push_back(row);
  }
  facts.table("algorithms", algorithms);

  Table sizes{{"block", "fp64", "fp32", "fp16"}, {}};
  Chart chart;
  chart.id = "exactness";
  chart.title = fmt::format("Largest error of FA2's O (n {}, d {})", s.n, s.d);
  chart.x_label = "rows of a tile";
  chart.y_label = "largest |tiled - exact|";
  chart.log_x = chart.log_y = true;
  chart.source = fmt::format("flashsim lesson run 6 --n {} --d {} --seed {}", s.n, s.d, s.seed);
  for (const char* dtype : {"fp64", "fp32", "fp16"}) chart.series.push_back({dtype, {}, {}});
  for (int block = 16; block <= std::min(256, s.n); block *= 2) {
    std::vector<std::string> row = {std::to_string(block)};
    std::size_t i = 0;
    for (const Dtype dtype : {Dtype::fp64, Dtype::fp32, Dtype::fp16}) {
      p.dtype = dtype;
      const double error = error_of("fa2", p, square(p, block), s.seed).error;
      row.push_back(shown(error));
      chart.series[i].x.push_back(block);
      chart.series[i++].y.push_back(error);
    }
    sizes.rows.push_back(row);
  }
  facts.table("sizes", sizes);
  facts.chart(chart);

  // Queries that see nothing: more queries than keys under a causal mask.
  Problem few = heads_of_length(1, 5, 8);
  few.seqlen_k = 2;
  few.causal = true;
  few.dtype = Dtype::fp64;
  const Truth t = truth(few, s.seed);
  ForwardResult got;
  const Algorithm& fa2 = *find_algorithm("fa2");
  const Tiling pairs = square(few, 2);
  check_forward(program_of(fa2.forward, few, pairs), roundings_of(fa2, few, pairs), few, pairs, t, &got);
  int empty = 0;
  bool zero = true;
  for (int row = 0; row < 5; ++row)
    if (std::isinf(got.lse[static_cast<std::size_t>(row)])) {
      ++empty;
      for (int c = 0; c < 8; ++c) zero = zero && got.o[static_cast<std::size_t>(row * 8 + c)] == 0;
    }
  facts.answer("empty_rows", empty, "rows", 0, "{:.0f}");
  facts.text("empty_output", zero ? "0" : "not 0");
  facts.number("naive_empty", std::exp(-infinity) / std::exp(-infinity), "{}");
  facts.text("naive_empty", "not a number");
  Table seen{{"<5 queries, 2 keys", "<last with last (here)", "<first with first (PyTorch)"}, {}};
  for (int row = 0; row < 5; ++row) {
    std::string ours, theirs;
    for (int k = 0; k < 2; ++k) {
      ours += few.sees(row, k) ? " x" : " .";
      theirs += k <= row ? " x" : " .";
    }
    seen.rows.push_back({fmt::format("query {}", row), ours, theirs});
  }
  facts.table("seen", seen);

  // Lengths that no block divides, and decoding's alignment.
  Table ragged{{"<queries x keys", "<block", "error, fp32", "may be"}, {}};
  for (const auto& [q, k] : {std::pair{257, 257}, {63, 129}, {1, 100}, {5, 2}}) {
    Problem r = heads_of_length(1, q, s.d);
    r.seqlen_k = k;
    r.causal = true;
    r.dtype = Dtype::fp32;
    const Tiling tiling = square(r, 64);
    const Comparison c = error_of("fa2", r, tiling, s.seed);
    ragged.rows.push_back({fmt::format("{} x {}", q, k),
                           fmt::format("{} x {}", tiling.block_q, tiling.block_k), shown(c.error),
                           shown(c.tolerance)});
  }
  facts.table("ragged", ragged);
  return facts;
}

}  // namespace flashsim::course

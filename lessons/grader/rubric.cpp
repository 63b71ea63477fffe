#include "lessons/grader/rubric.h"

#include "cpu_reference/random.h"

namespace flashsim::lessons {
namespace {

/// Numbers that a seed decides; seed 0 gives the middle of each range to all.
class Draws {
 public:
  Draws(int exercise, std::uint64_t seed)
      : seed_(seed), stream_(2000 + static_cast<std::uint32_t>(exercise)) {}
  int between(int low, int high) {
    const double x = (random_value(Distribution::uniform, seed_, stream_, drawn_++) + 1) / 2;
    const int n = high - low + 1;
    return low + (seed_ == 0 ? n / 2 : std::min(static_cast<int>(x * n), n - 1));
  }
  std::uint64_t inputs() { return seed_ * 1'000'003 + stream_ * 101 + drawn_++; }

 private:
  std::uint64_t seed_;
  std::uint32_t stream_;
  std::uint64_t drawn_ = 0;
};

Problem problem(int queries, int keys, int head_dim, Dtype dtype, bool causal = false) {
  Problem p;
  p.seqlen_q = queries;
  p.seqlen_k = keys;
  p.head_dim = head_dim;
  p.dtype = dtype;
  p.causal = causal;
  return p;
}

Tiling tiling(int block_q, int block_k) {
  Tiling t;
  t.block_q = block_q;
  t.block_k = block_k;
  return t;
}

/// Builds a rubric case by case.
class Builder {
 public:
  Builder(int exercise, std::uint64_t seed, Schedule reference) : draws(exercise, seed) {
    rubric.reference = reference;
  }
  /// A case whose result counts `points`.
  Case& add(const std::string& name, double points, const Problem& p, const Tiling& t,
            Values values = Values::normal) {
    Case c;
    c.name = name;
    c.p = p;
    c.t = t;
    c.values = values;
    c.seed = draws.inputs();
    c.roundings.tiles = (p.seqlen_k + t.block_k - 1) / t.block_k;
    rubric.cases.push_back(c);
    if (points > 0) check(name, points, Measure::result);
    return rubric.cases.back();
  }
  /// Something else about the case added last.
  void check(const std::string& name, double points, Measure measure) {
    rubric.checks.push_back({name, points, rubric.cases.size() - 1, measure, false});
  }
  void gate(const std::string& name, double points, Measure measure) {
    rubric.checks.push_back({name, points, rubric.cases.size() - 1, measure, true});
  }
  void mistakes(std::vector<Mistake> more) {
    for (Mistake& m : more) rubric.mistakes.push_back(std::move(m));
  }

  Draws draws;
  Rubric rubric;
};

constexpr Dtype fp32 = Dtype::fp32, fp16 = Dtype::fp16;

/// Exercise 2.
Rubric naive_schedule(std::uint64_t seed) {
  Builder b(2, seed, standard_forward);
  const int size = 8 * b.draws.between(1, 3);
  const auto stores_scores = [](Case& c) {
    c.lse = false;
    c.roundings.scores = 1;
  };
  stores_scores(
      b.add("blocks divide the lengths", 2, problem(size * 2, size * 3, 16, fp32), tiling(size, size)));
  stores_scores(b.add("blocks do not divide them", 2, problem(size * 2 + 1, size * 3 - 1, 16, fp32),
                      tiling(size, size)));
  stores_scores(
      b.add("scores in the hundreds", 1, problem(20, 30, 16, fp32), tiling(16, 8), Values::large_logits));
  stores_scores(b.add("equal scores", 1, problem(20, 30, 16, fp32), tiling(16, 8), Values::constant_rows));
  stores_scores(b.add("a longer sequence", 0, problem(96, 160, 32, fp16), tiling(32, 32)));
  b.check("requested bytes", 2.5, Measure::bytes);
  b.check("peak SRAM", 1.5, Measure::sram);
  b.mistakes(standard_mistakes());
  return std::move(b.rubric);
}

/// Exercise 3.
Rubric tiled_forward(std::uint64_t seed) {
  Builder b(3, seed, fa2_forward);
  const int size = 8 * b.draws.between(1, 3), tiles = b.draws.between(3, 5);
  b.add("blocks divide the lengths", 2, problem(size * 2, size * tiles, 16, fp32), tiling(size, size));
  b.check("m and l are right after every tile", 1, Measure::statistics);
  b.add("one row more than a tile of queries, one less of keys", 2,
        problem(size * 2 + 1, size * tiles - 1, 16, fp32), tiling(size, size));
  b.add("scores in the hundreds", 1, problem(20, 50, 16, fp32), tiling(16, 8), Values::large_logits);
  b.add("every tile has a larger maximum", 1, problem(20, 50, 16, fp32), tiling(16, 8),
        Values::growing_maxima);
  b.add(
      "equal scores, grouped queries, half precision", 0.5,
      [&] {
        Problem p = problem(40, 64, 32, fp16);
        p.batch = 2;
        p.heads_q = 4;
        p.heads_kv = 2;
        return p;
      }(),
      tiling(32, 16), Values::constant_rows);
  b.add("a longer sequence", 0, problem(96, 160, 32, fp16), tiling(32, 32));
  b.check("requested bytes", 1.5, Measure::bytes);
  b.check("neither S nor P in HBM", 0.5, Measure::no_scores);
  b.check("peak SRAM", 0.5, Measure::sram);
  b.mistakes(step_mistakes());
  b.mistakes(frame_mistakes());
  b.mistakes(traffic_mistakes());
  return std::move(b.rubric);
}

/// Exercise 4.
Rubric causal_tiles(std::uint64_t seed) {
  Builder b(4, seed, fa2_forward);
  const int size = 8 * b.draws.between(1, 3), more = b.draws.between(5, 30);
  b.add("as many queries as keys", 2, problem(size * 4, size * 4, 16, fp32, true), tiling(size, size));
  b.add("fewer queries than keys, ragged", 2, problem(43, 43 + more, 16, fp32, true), tiling(16, 24));
  b.add("more queries than keys: rows that see nothing", 2, problem(43 + more, 43, 16, fp32, true),
        tiling(16, 8));
  b.add("without a mask", 1, problem(33, 47, 16, fp32), tiling(16, 16));
  b.add("a longer sequence", 0, problem(160, 160, 32, fp16, true), tiling(32, 16));
  b.gate("requested bytes, n_q = n_k", 1.5, Measure::bytes);
  b.add("a longer sequence after others", 0, problem(64, 160, 32, fp16, true), tiling(16, 32));
  b.check("requested bytes, n_q < n_k", 1.5, Measure::bytes);
  b.mistakes(causal_mistakes());
  b.mistakes(frame_mistakes());
  return std::move(b.rubric);
}

/// Exercise 5.
Rubric ragged_tails(std::uint64_t seed) {
  Builder b(5, seed, fa2_forward);
  const int size = 8 * b.draws.between(1, 3), tiles = b.draws.between(2, 4);
  b.add("one key more than a multiple of the block", 2, problem(size, size * tiles + 1, 16, fp32),
        tiling(size, size));
  b.add("one key less", 2, problem(size, size * tiles - 1, 16, fp32), tiling(size, size));
  b.add("queries: one row more", 2, problem(size * tiles + 1, size, 16, fp32), tiling(size, size));
  b.add("both, with different blocks", 2, problem(size * tiles - 1, 8 * tiles + 5, 16, fp32),
        tiling(size, 8));
  b.add("shorter than a block", 1, problem(5, 3, 16, fp32), tiling(32, 16));
  b.add("a longer sequence", 0, problem(90, 150, 32, fp16), tiling(32, 32));
  b.check("requested bytes", 1, Measure::bytes);
  b.mistakes(frame_mistakes());
  return std::move(b.rubric);
}

/// Exercise 6.
Rubric rescaled_output(std::uint64_t seed) {
  Builder b(6, seed, fa2_forward);
  const int size = 8 * b.draws.between(1, 3), more = b.draws.between(1, 20);
  b.add("without a mask, ragged", 2, problem(41, 41 + more, 16, fp32), tiling(size, 16));
  b.check("m and l are right after every tile", 1, Measure::statistics);
  b.add("causal", 1.5, problem(50, 61, 16, fp32, true), tiling(16, size));
  b.add("causal, rows that see nothing", 1, problem(61, 40, 16, fp32, true), tiling(16, 16));
  b.add("scores in the hundreds", 1, problem(20, 50, 16, fp32), tiling(16, 8), Values::large_logits);
  b.add("every tile has a larger maximum", 1, problem(20, 50, 16, fp32), tiling(16, 8),
        Values::growing_maxima);
  b.add("a longer sequence", 0, problem(96, 160, 32, fp16), tiling(32, 32));
  b.gate("FLOPs outside matrix products", 2, Measure::other_flops);
  b.check("requested bytes", 0.5, Measure::bytes);
  b.mistakes(step_mistakes());
  b.mistakes(frame_mistakes());
  b.mistakes(causal_mistakes());
  b.mistakes(traffic_mistakes());
  return std::move(b.rubric);
}

/// Exercise 7.
Rubric loop_exchange(std::uint64_t seed) {
  Builder b(7, seed, fa2_forward);
  const int size = 8 * b.draws.between(1, 3), more = b.draws.between(1, 20);
  b.add("without a mask, ragged", 2, problem(41, 41 + more, 16, fp32), tiling(size, 16));
  b.add("causal", 1.5, problem(50, 61, 16, fp32, true), tiling(16, size));
  b.add("causal, rows that see nothing", 1, problem(61, 40, 16, fp32, true), tiling(16, 16));
  b.add("every tile has a larger maximum", 1, problem(20, 50, 16, fp32), tiling(16, 8),
        Values::growing_maxima);
  b.add("a longer sequence", 0, problem(128, 160, 32, fp16, true), tiling(32, 32));
  b.gate("requested bytes", 2.5, Measure::bytes);
  b.check("row blocks can run at the same time", 1, Measure::parallel);
  b.check("peak SRAM", 1, Measure::sram);
  b.mistakes(frame_mistakes());
  b.mistakes(causal_mistakes());
  b.mistakes(traffic_mistakes());
  return std::move(b.rubric);
}

/// Exercise 8.
Rubric backward(std::uint64_t seed) {
  Builder b(8, seed, fa2_backward);
  const int size = 8 * b.draws.between(1, 3), more = b.draws.between(1, 15);
  const auto backwards = [](Case& c) -> Case& {
    c.backward = true;
    return c;
  };
  backwards(b.add("without a mask, ragged", 2, problem(33, 33 + more, 16, fp32), tiling(size, 16)));
  backwards(b.add("causal, n_q < n_k", 1.5, problem(30, 41, 16, fp32, true), tiling(16, size)));
  Problem grouped = problem(41, 30, 16, fp32, true);
  grouped.heads_q = 4;
  grouped.heads_kv = 2;
  backwards(b.add("grouped queries, rows that see nothing", 1, grouped, tiling(16, 16)));
  backwards(b.add("scores in the hundreds", 1, problem(20, 30, 16, Dtype::fp64), tiling(16, 8),
                  Values::large_logits));
  Problem dropped = problem(33, 35, 16, fp32);
  dropped.dropout_p = 0.3F;
  dropped.dropout_seed = seed + 5;
  backwards(b.add("dropout", 1.5, dropped, tiling(16, 16)));
  backwards(b.add("a longer sequence", 0, problem(96, 128, 32, fp16), tiling(32, 32)));
  b.check("requested bytes", 1.5, Measure::bytes);
  b.check("no (n, n) tensor in HBM", 0.5, Measure::no_scores);
  b.check("peak SRAM", 1, Measure::sram);
  b.mistakes(backward_mistakes());
  return std::move(b.rubric);
}

/// Exercise 9.
Rubric decoding_merge(std::uint64_t seed) {
  Builder b(9, seed, decoding_forward);
  const int keys = 90 + b.draws.between(0, 20);
  const auto split = [](int block_q, int block_k, int splits) {
    Tiling t = tiling(block_q, block_k);
    t.num_splits = splits;
    return t;
  };
  Problem p = problem(1, keys, 16, fp32);
  b.add("one query, four splits", 2, p, split(16, 8, 4));
  p.batch = 2;
  p.heads_q = 8;
  p.heads_kv = 2;
  p.seqlen_q = 3;
  p.causal = true;
  b.add("grouped queries, more splits", 2, p, split(8, 8, 6));
  b.add("scores in the hundreds", 1.5, problem(2, keys, 16, fp32), split(16, 8, 5), Values::large_logits);
  b.add("every part has a larger maximum", 1, problem(2, keys, 16, fp32), split(16, 8, 5),
        Values::growing_maxima);
  Problem window = problem(4, keys, 16, fp32, true);
  window.window_left = 20;
  b.add("parts that see nothing", 1.5, window, split(4, 8, 8));
  b.add("a longer past", 0, problem(1, 512, 32, fp16), split(16, 32, 8));
  b.check("requested bytes", 2, Measure::bytes);
  b.mistakes(merge_mistakes());
  return std::move(b.rubric);
}

}  // namespace

double Rubric::points() const {
  double sum = 0;
  for (const Check& c : checks) sum += c.points;
  return sum;
}

Rubric rubric_of(int exercise, std::uint64_t seed) {
  switch (exercise) {
    case 2: return naive_schedule(seed);
    case 3: return tiled_forward(seed);
    case 4: return causal_tiles(seed);
    case 5: return ragged_tails(seed);
    case 6: return rescaled_output(seed);
    case 7: return loop_exchange(seed);
    case 8: return backward(seed);
    case 9: return decoding_merge(seed);
    default: return {};
  }
}

}  // namespace flashsim::lessons

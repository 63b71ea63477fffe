#include "simulator/cli/problem_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulator/cli/errors.h"
#include "simulator/cli/order_options.h"
#include "simulator/cli/style.h"

namespace flashsim::cli {
namespace {

constexpr std::int64_t longest = std::int64_t{1} << 24;
constexpr std::int64_t most_heads = 65536;

const std::vector<std::pair<std::string, Dtype>> dtypes = {{"fp64", Dtype::fp64},
                                                           {"fp32", Dtype::fp32},
                                                           {"fp16", Dtype::fp16},
                                                           {"bf16", Dtype::bf16},
                                                           {"e4m3", Dtype::e4m3}};
/// What others call them.
const std::vector<std::pair<std::string, std::string>> other_names = {
    {"fp8", "e4m3"}, {"float8_e4m3fn", "e4m3"}, {"half", "fp16"},   {"float16", "fp16"},
    {"f16", "fp16"}, {"bfloat16", "bf16"},      {"float", "fp32"},  {"float32", "fp32"},
    {"f32", "fp32"}, {"double", "fp64"},        {"float64", "fp64"}};

Dtype parse_dtype(const std::string& text) {
  std::string name = text;
  for (const auto& [other, ours] : other_names)
    if (text == other) name = ours;
  std::vector<std::string> words;
  for (const auto& [word, dtype] : dtypes) words.push_back(word);
  return dtypes[parse_choice("--dtype", name, words)].second;
}

/// "256" (keys on the left, as causal windows have) or "256,0"; -1 for no limit.
void parse_window(const std::string& text, Problem& p) {
  const std::vector<std::string> sides = parse_list("--window", text);
  if (sides.size() > 2)
    throw UsageError(fmt::format(
        "--window is '{}'; expected LEFT or LEFT,RIGHT: how many keys before and after each query stay "
        "visible, -1 for all",
        text));
  p.window_left = static_cast<int>(parse_integer("--window", sides[0], -1, longest));
  p.window_right = sides.size() > 1 ? static_cast<int>(parse_integer("--window", sides[1], -1, longest)) : -1;
}

}  // namespace

void ProblemOptions::declare(Options& options) {
  options.heading("Problem");
  options.value(
      "-n,--n", "N",
      fmt::format("queries and keys (default {}); a suffix K or M counts in 1,024s", problem_.seqlen_q),
      [this](const std::string& text) {
        const int n = static_cast<int>(parse_integer("--n", text, 1, longest));
        if (!seqlen_q_) seqlen_q_ = n;
        if (!seqlen_k_) seqlen_k_ = n;
      });
  options.integer("--seqlen-q", seqlen_q_, 1, longest, "queries, where there are not as many as keys");
  options.integer("--seqlen-k", seqlen_k_, 1, longest, "keys");
  options.integer("-d,--d,--head-dim", problem_.head_dim, 1, 4096,
                  fmt::format("head dimension (default {})", problem_.head_dim));
  options.integer("--batch", problem_.batch, 1, most_heads, "batch entries");
  options.integer("--heads", heads_, 1, most_heads, "query heads");
  options.integer("--heads-kv", heads_kv_, 1, most_heads,
                  "key/value heads, which the query heads share (GQA)");
  options.value("--dtype", "fp64|fp32|fp16|bf16|e4m3",
                "what Q, K, V and O are stored in (default fp16; check: all but e4m3); fp8 is e4m3",
                [this](const std::string& text) { dtype_ = parse_dtype(text); });
  options.flag("--causal", problem_.causal, "hide later keys; the last query lines up with the last key");
  options.value("--window", "LEFT[,RIGHT]",
                "sliding window: keys visible before and after each query; -1 for all",
                [this](const std::string& text) { parse_window(text, problem_); });
  options.value("--scale", "X", "factor of Q K^T (default 1 / sqrt(d))", [this](const std::string& text) {
    problem_.softmax_scale = static_cast<float>(parse_number("--scale", text, 1e-30, 1e30));
  });
  options.value("--dropout", "P", "probability that an element of P is dropped",
                [this](const std::string& text) {
                  problem_.dropout_p = static_cast<float>(parse_number("--dropout", text, 0, 0.999));
                });
  options.integer("--seed", seed_, 0, std::int64_t{1} << 62, "seed of random inputs and of dropout");
}

Problem ProblemOptions::problem() const {
  Problem p = problem_;
  p.seqlen_q = seqlen_q_.value_or(seqlen_k_.value_or(p.seqlen_q));
  p.seqlen_k = seqlen_k_.value_or(seqlen_q_.value_or(p.seqlen_k));
  p.heads_q = heads_.value_or(std::max(p.heads_q, heads_kv_.value_or(1)));
  p.heads_kv = heads_kv_.value_or(heads_ ? p.heads_q : p.heads_kv);
  p.dtype = dtype_.value_or(p.dtype);
  p.dropout_seed = seed_;
  if (const std::string fault = fault_of(p); !fault.empty()) throw UsageError(fault);
  return p;
}

Problem ProblemOptions::problem(int seqlen) const {
  Problem p = problem();
  p.seqlen_q = p.seqlen_k = seqlen;
  return p;
}

void TilingOptions::declare(Options& options) {
  options.heading("Tiling");
  options.value("--block", "B", "rows of Q, K and V per tile", [this](const std::string& text) {
    const int rows = static_cast<int>(parse_integer("--block", text, 1, longest));
    if (!block_q_) block_q_ = rows;
    if (!block_k_) block_k_ = rows;
  });
  options.integer("--block-q", block_q_, 1, longest, "rows of Q per tile (B_r)");
  options.integer("--block-k", block_k_, 1, longest, "rows of K and V per tile (B_c)");
  options.integer("--stages", stages_, 1, 16, "fa3: K/V tiles in flight");
  options.integer("--warps", warps_, 1, 64, "warps that compute in a thread block");
  options.choice(
      "--warp-split", warp_split_,
      std::vector<std::pair<std::string, WarpSplit>>{{"query", WarpSplit::query}, {"key", WarpSplit::key}},
      "what the warps share out: rows of Q (FA2) or columns of K (FA1)");
  options.integer("--splits", splits_, 1, 1024, "decoding: thread blocks that share the keys");
  declare_order(options, order_, "order in which the thread blocks of a head start");
  options.choice(
      "--key-order", key_order_,
      std::vector<std::pair<std::string, BlockOrder>>{{"first-to-last", BlockOrder::first_to_last},
                                                      {"last-to-first", BlockOrder::last_to_first}},
      "order in which a thread block of fa2 or fa3 walks K and V");
  options.choice(
      "--temporaries", temporaries_,
      std::vector<std::pair<std::string, Dtype>>{{"fp16", Dtype::fp16}, {"fp32", Dtype::fp32}},
      "fa1: how O (dQ) waits in memory between visits; fp16 as the paper counts, fp32 as released");
  options.flag("--per-tensor-scales", per_tensor_scales_,
               "fa3, e4m3: one scale a head instead of one a tile");
  options.flag("--no-incoherent", no_incoherent_,
               "fa3, e4m3: without rotation of Q and K by a Hadamard matrix");
}

Tiling TilingOptions::tiling(const Algorithm& algorithm, const Problem& p) const {
  Tiling t = algorithm.tiling(p);
  const bool packs_queries = algorithm.name == "decoding";
  const int rows = packs_queries ? p.seqlen_q * p.group() : p.seqlen_q;
  if (block_q_ && *block_q_ > rows && !packs_queries)
    throw UsageError(fmt::format("a block of Q has {} rows, but there are only {} queries; choose at most {}",
                                 *block_q_, rows, rows));
  if (block_k_ && *block_k_ > p.seqlen_k)
    throw UsageError(fmt::format("a block of K has {} rows, but there are only {} keys; choose at most {}",
                                 *block_k_, p.seqlen_k, p.seqlen_k));
  t.block_q = std::min(block_q_.value_or(t.block_q), rows);
  t.block_k = std::min(block_k_.value_or(t.block_k), p.seqlen_k);
  t.stages = stages_.value_or(t.stages);
  t.warps = warps_.value_or(t.warps);
  t.num_splits = splits_.value_or(t.num_splits);
  t.order = order_.value_or(t.order);
  t.key_order = key_order_.value_or(t.key_order);
  t.split = warp_split_.value_or(t.split);
  t.temporaries = temporaries_.value_or(t.temporaries);
  t.fp8_block_scales = !per_tensor_scales_;
  t.fp8_incoherent_processing = !no_incoherent_;
  if (const std::string fault = fault_of(t); !fault.empty()) throw UsageError(fault);
  return t;
}

const Algorithm& algorithm_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Algorithm& a : algorithms()) names.emplace_back(a.name);
  return algorithms()[parse_choice("--algorithm", name, names)];
}

void require_supported(const Algorithm& algorithm, const Problem& p) {
  if (const std::string fault = algorithm.fault(p); !fault.empty())
    throw UsageError(fmt::format("{}: {}", algorithm.name, fault));
}

void require_countable(const Problem& p, const Tiling& t) {
  const double scores = double(p.seqlen_q) * p.seqlen_k;
  // The largest count is that of FLOPs: up to 14 n^2 d a head; eager passes move up to 100 bytes a score.
  if (scores * (14.0 * p.head_dim + 100) * p.batch * p.heads_q > 9e18)
    throw UsageError(
        fmt::format("{} needs more than 9.2e18 FLOPs, and counts are kept in 64 bits; choose a smaller n, "
                    "batch or number of heads",
                    describe(p)));
  const double tiles =
      std::ceil(double(p.seqlen_q) / t.block_q) * std::ceil(double(p.seqlen_k) / t.block_k) * p.group();
  if (tiles > 0x1p32)
    throw UsageError(
        fmt::format("{} cut {} x {} makes {} tiles, which would take hours; choose larger blocks or a "
                    "smaller n",
                    describe(p), t.block_q, t.block_k, count(tiles)));
}

}  // namespace flashsim::cli

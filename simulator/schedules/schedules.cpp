#include "simulator/schedules/schedules.h"

#include <algorithm>

namespace flashsim {
namespace {

std::string computes_all(const Problem& p) {
  if (p.dtype == Dtype::e4m3) return "only fa3 computes in e4m3; choose fp16, bf16, fp32 or fp64";
  return {};
}
std::string without_dropout(const Problem& p) {
  if (p.dropout_p > 0) return "this algorithm has no dropout; use standard, fa1, fa2 or chunked";
  return {};
}
std::string rotates_without_dropout(const Problem& p) {
  if (p.dtype == Dtype::e4m3 && (p.head_dim & (p.head_dim - 1)) != 0)
    return "in e4m3 head_dim must be a power of two, for the Hadamard matrix; it is " +
           std::to_string(p.head_dim);
  return without_dropout(p);
}
std::string decodes(const Problem& p) {
  const std::string fault = computes_all(p);
  return fault.empty() ? without_dropout(p) : fault;
}

Tiling square(const Problem&) { return {}; }
Tiling warps_along_keys(const Problem&) {
  Tiling t;
  t.split = WarpSplit::key;
  return t;
}
Tiling causal_last_first(const Problem& p) {
  Tiling t;
  if (p.causal) t.order = BlockOrder::last_to_first;
  return t;
}
Tiling two_warpgroups(const Problem& p) {
  Tiling t = causal_last_first(p);
  t.block_q = 128;
  t.block_k = 128;
  t.stages = 2;
  t.warps = 8;
  return t;
}
Tiling packed(const Problem& p) {
  Tiling t;
  t.block_q = std::clamp(p.seqlen_q * p.group(), 1, 64);
  t.num_splits = 16;
  return t;
}

}  // namespace

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> all = {
      {"standard", "standard attention, as the papers write it",
       "three kernels; S and P go through HBM, whole n x n matrices", standard_forward, standard_backward,
       computes_all, square},
      {"standard-eager", "standard attention, as an eager framework runs it",
       "one kernel an operator: scaling, masking, softmax and dropout are passes over n x n of their own",
       [](Device& g, const Problem& p, const Tiling& t) { standard_eager_forward(g, p, t, {}); },
       [](Device& g, const Problem& p, const Tiling& t) { standard_eager_backward(g, p, t, {}); },
       computes_all, square},
      {"chunked", "chunked attention (Rabe and Staats 2021)",
       "each chunk of keys is summarised on its own; the summaries meet in HBM", chunked_forward, nullptr,
       computes_all, square},
      {"fa1", "FlashAttention (Dao et al. 2022)",
       "tiles and online softmax; K and V outside, so O, l and m go through HBM on every visit", fa1_forward,
       fa1_backward, computes_all, warps_along_keys},
      {"fa2", "FlashAttention-2 (Dao 2023)",
       "Q outside: O stays on chip and is divided once; a thread block for every row block", fa2_forward,
       fa2_backward, computes_all, causal_last_first},
      {"fa3", "FlashAttention-3 (Shah et al. 2024)",
       "a producer loads, consumers overlap softmax with the next product; fp8", fa3_forward, nullptr,
       rotates_without_dropout, two_warpgroups},
      {"decoding", "Flash-Decoding (2023)",
       "few queries: the keys are split over thread blocks, and the parts merged", decoding_forward, nullptr,
       decodes, packed},
  };
  return all;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm& a : algorithms())
    if (a.name == name) return &a;
  return nullptr;
}

}  // namespace flashsim

#include "simulator/compare/suite.h"

#include <algorithm>
#include <initializer_list>
#include <random>

namespace flashsim {
namespace {

class Choices {
 public:
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  int of(std::initializer_list<int> values) { return values.begin()[below(values.size())]; }

 private:
  std::mt19937_64 engine_{20221};
};

struct Limits {
  const char* kernel;
  bool backward;
  int cases;
  int longest;              // sequence
  double most_flops;        // 4 n^2 d heads: keeps a launch well below a second
  double most_score_bytes;  // of S and P together, where they exist
};

/// The two softmax kernels came last: what was drawn before them has not changed.
constexpr int softmax_cases = 16;
constexpr double most_softmax_bytes = 34e9;  // of S and P together

constexpr Limits limits[] = {
    {"standard", false, 28, 32768, 2e13, 34e9}, {"standard", true, 20, 16384, 1e13, 34e9},
    {"fa1", false, 26, 8192, 1e12, 0},          {"fa1", true, 20, 8192, 5e11, 0},
    {"fa2", false, 40, 131072, 4e13, 0},        {"fa2", true, 28, 65536, 2e13, 0},
    {"fa3", false, 32, 131072, 4e13, 0},        {"decoding", false, 26, 131072, 1e12, 0},
};

Problem draw(Choices& choose, const Limits& l) {
  const bool decoding = std::string_view(l.kernel) == "decoding";
  for (;;) {
    Problem p;
    p.seqlen_k = 128 << choose.below(11);
    if (choose.below(4) == 0) p.seqlen_k -= static_cast<int>(choose.below(100));  // no block divides it
    p.seqlen_q = decoding ? choose.of({1, 1, 1, 4}) : p.seqlen_k;
    p.head_dim = choose.of({64, 128, 128, 256});
    p.batch = 1 << choose.below(7);
    p.heads_q = 1 << choose.below(6);
    p.heads_kv = choose.below(3) == 0 ? std::max(1, p.heads_q / 4) : p.heads_q;
    p.causal = choose.below(2) == 0;
    p.dtype = choose.below(4) == 0 ? Dtype::bf16 : Dtype::fp16;
    const double heads = static_cast<double>(p.batch) * p.heads_q, n = p.seqlen_k;
    const double scores = heads * p.seqlen_q * n;
    if (heads > 1024 || p.seqlen_k > l.longest || 4 * scores * p.head_dim > l.most_flops) continue;
    if (l.most_score_bytes > 0 && 4 * scores > l.most_score_bytes) continue;
    if (heads * n * p.head_dim * 8 > 16e9) continue;  // Q, K, V and O
    return p;
  }
}

/// Rows of scores, whole: the kernels take no mask.
Problem draw_scores(Choices& choose) {
  for (;;) {
    Problem p;
    p.seqlen_k = 128 << choose.below(11);
    if (choose.below(4) == 0) p.seqlen_k -= static_cast<int>(choose.below(100));
    p.seqlen_q = p.seqlen_k;
    p.head_dim = 64;  // of Q and K, which nobody reads
    p.batch = 1 << choose.below(7);
    p.heads_q = p.heads_kv = 1 << choose.below(5);
    if (4 * static_cast<double>(elements(p, p.heads_q, p.seqlen_q, p.seqlen_k)) <= most_softmax_bytes)
      return p;
  }
}

}  // namespace

std::vector<KernelCase> bytes_suite_v1() {
  std::vector<KernelCase> suite;
  Choices choose;
  for (const Limits& l : limits)
    for (int i = 0; i < l.cases;) {
      const KernelCase c{l.kernel, "", l.backward, draw(choose, l)};
      if (std::find(suite.begin(), suite.end(), c) != suite.end()) continue;
      suite.push_back(c);
      ++i;
    }
  for (int i = 0; i < softmax_cases;) {
    const KernelCase c{"softmax", i % 2 == 0 ? "safe" : "online", false, draw_scores(choose)};
    if (std::find(suite.begin(), suite.end(), c) != suite.end()) continue;
    suite.push_back(c);
    ++i;
  }
  return suite;
}

}  // namespace flashsim

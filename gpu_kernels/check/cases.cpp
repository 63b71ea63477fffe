#include "gpu_kernels/check/cases.h"

#include <algorithm>
#include <array>

#include "cpu_reference/philox.h"

namespace flashsim::gpu {
namespace {

struct Masks {
  bool causal = false;
  int left = -1, right = -1;
};
constexpr Masks none{}, causal{true};

Case make(int batch, int heads_q, int heads_kv, int seqlen_q, int seqlen_k, int head_dim, Dtype dtype,
          Masks mask = none, float dropout = 0, Fill fill = Fill::normal) {
  Case c;
  Problem& p = c.problem;
  p.batch = batch, p.heads_q = heads_q, p.heads_kv = heads_kv;
  p.seqlen_q = seqlen_q, p.seqlen_k = seqlen_k, p.head_dim = head_dim, p.dtype = dtype;
  p.causal = mask.causal, p.window_left = mask.left, p.window_right = mask.right;
  p.dropout_p = dropout, p.dropout_seed = dropout > 0 ? 0x1234567890abcdef : 0;
  c.fill = fill, c.seed = 1;
  return c;
}

std::vector<Case> make_adversarial_cases() {
  constexpr Dtype fp16 = Dtype::fp16, bf16 = Dtype::bf16;
  std::vector<Case> cases = {
      make(1, 1, 1, 1, 1, 64, fp16),
      make(1, 2, 2, 1, 1, 8, bf16, causal),
      make(2, 4, 2, 65, 129, 72, fp16, causal, 0.25F),
      make(1, 2, 1, 200, 77, 136, fp16, causal),
      make(1, 4, 1, 3, 300, 128, bf16, causal),
      make(1, 2, 2, 96, 130, 64, fp16, causal, 0, Fill::nonfinite),
  };
  // Around the edges of tiles.
  for (const int d : {64, 128, 256})
    for (const int n : {63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257})
      cases.push_back(make(1, 2, 1, n, n, d, n % 2 == 0 ? fp16 : bf16, n % 3 == 0 ? causal : none));
  for (const int n : {1, 79, 80, 81}) cases.push_back(make(1, 2, 2, 5, n, 256, fp16));
  // head_dim that the tiles must pad.
  for (const int d : {8, 40, 72, 136, 248})
    for (const Dtype dtype : {fp16, bf16})
      cases.push_back(make(2, 4, 2, 100, 173, d, dtype, causal, dtype == fp16 ? 0.3F : 0));
  const std::vector<Case> more = {
      // n_q != n_k, rows that see nothing
      make(1, 4, 4, 513, 512, 64, fp16, causal),
      make(1, 4, 4, 512, 513, 128, fp16, causal, 0.1F),
      make(2, 6, 2, 300, 40, 64, fp16, causal),
      make(1, 2, 2, 700, 1, 128, bf16, causal),
      make(1, 2, 2, 256, 100, 64, fp16, {false, 5, -1}),
      // few queries
      make(1, 8, 1, 1, 1000, 128, fp16),
      make(3, 16, 2, 1, 4097, 128, fp16, causal),
      make(2, 16, 2, 5, 2049, 64, bf16, causal),
      make(1, 24, 8, 7, 999, 256, fp16, causal),
      make(1, 40, 1, 2, 130, 40, fp16, causal),
      make(64, 4, 4, 1, 777, 128, fp16),
      make(1, 1, 1, 33, 9001, 64, fp16, causal),
      make(1, 1, 1, 2, 20000, 64, fp16),
      // windows; the third hides everything from the first rows, the fifth shows one key to each row
      make(1, 4, 2, 384, 640, 64, fp16, {false, 50, 20}),
      make(1, 4, 2, 384, 640, 128, bf16, {true, 100}, 0.2F),
      make(1, 2, 2, 400, 100, 64, fp16, {false, 10, 0}),
      make(1, 2, 2, 300, 300, 128, fp16, {false, -1, 7}),
      make(1, 2, 1, 100, 700, 128, fp16, {true, 0}),
      make(1, 2, 1, 260, 260, 256, fp16, {false, 16, 16}, 0.5F),
      // Inf and NaN
      make(1, 4, 2, 257, 300, 64, fp16, causal, 0, Fill::nonfinite_v),
      make(1, 4, 2, 257, 300, 128, bf16, causal, 0, Fill::nonfinite_v),
      make(1, 8, 1, 4, 333, 128, fp16, causal, 0, Fill::nonfinite_v),
      make(1, 2, 2, 200, 300, 64, fp16, {false, 30, 10}, 0, Fill::nonfinite_v),
      make(1, 4, 2, 257, 300, 64, fp16, causal, 0, Fill::nonfinite),
      make(1, 4, 2, 130, 130, 128, bf16, causal, 0, Fill::nonfinite),
      make(1, 2, 2, 70, 100, 256, fp16, causal, 0, Fill::nonfinite),
      make(1, 8, 2, 4, 333, 64, fp16, causal, 0, Fill::nonfinite),
      make(1, 2, 2, 100, 100, 64, fp16, none, 0, Fill::nonfinite),
      // unkind numbers
      make(1, 4, 4, 512, 512, 64, fp16, none, 0, Fill::outliers),
      make(1, 4, 4, 512, 512, 128, bf16, causal, 0, Fill::outliers),
      make(1, 2, 2, 200, 300, 64, fp16, none, 0, Fill::constant_scores),
      make(1, 2, 2, 200, 300, 128, bf16, causal, 0, Fill::constant_scores),
      make(1, 2, 2, 200, 700, 64, fp16, none, 0, Fill::growing_maximum),
      make(1, 2, 2, 200, 700, 128, bf16, causal, 0, Fill::growing_maximum),
      make(1, 2, 2, 200, 300, 64, fp16, none, 0, Fill::large_logits),
      make(1, 2, 2, 200, 300, 128, fp16, causal, 0, Fill::large_logits),
      make(1, 4, 2, 1, 300, 128, fp16, none, 0, Fill::large_logits),
      // larger
      make(2, 4, 4, 700, 700, 64, fp16, causal, 0.1F),
      make(1, 4, 4, 600, 700, 128, fp16),
      // rows of the softmax kernels
      make(1, 1, 1, 5, 1, 8, Dtype::fp32),
      make(1, 1, 1, 5, 7, 8, Dtype::fp32),
      make(1, 2, 2, 5, 4096, 8, Dtype::fp32, none, 0, Fill::outliers),
      make(1, 2, 2, 5, 4097, 8, Dtype::fp16, none, 0, Fill::outliers),
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

/// Numbers drawn one after another from a seed.
class Draw {
 public:
  Draw(std::uint64_t seed, int number) : seed_(seed), number_(static_cast<std::uint32_t>(number)) {}
  /// Uniform in [0, n).
  int below(int n) {
    return static_cast<int>(philox4x32_10(seed_, number_, next_++, 0, 0xca5e).word[0] %
                            static_cast<std::uint32_t>(n));
  }
  bool once_in(int n) { return below(n) == 0; }
  template <class T, std::size_t N>
  T of(const std::array<T, N>& choices) {
    return choices[static_cast<std::size_t>(below(static_cast<int>(N)))];
  }
  /// In [1, most], half of the time near a multiple of 64, small numbers as likely as large ones.
  int length(int most) {
    int high = 1;
    while (high < most && !once_in(8)) high *= 2;
    const int n = 1 + below(std::min(high, most));
    return once_in(2) ? n : std::clamp((n + 63) / 64 * 64 + below(3) - 1, 1, most);
  }

 private:
  std::uint64_t seed_;
  std::uint32_t number_, next_ = 0;
};

}  // namespace

const char* name_of(Fill fill) {
  switch (fill) {
    case Fill::normal: return "normal";
    case Fill::outliers: return "outliers";
    case Fill::constant_scores: return "constant scores";
    case Fill::growing_maximum: return "growing maximum";
    case Fill::large_logits: return "large logits";
    case Fill::nonfinite_v: return "Inf and NaN in V";
    case Fill::nonfinite: return "Inf and NaN everywhere";
  }
  return "";
}

std::string describe(const Case& c) {
  return describe(c.problem) + (c.fill == Fill::normal ? "" : std::string(", ") + name_of(c.fill));
}

const std::vector<Case>& adversarial_cases() {
  static const std::vector<Case> cases = make_adversarial_cases();
  return cases;
}

Case random_case(std::uint64_t seed, int number) {
  Draw draw(seed, number);
  Case c;
  c.seed = seed * 1000003 + static_cast<std::uint64_t>(number);
  Problem& p = c.problem;
  p.dtype = draw.once_in(2) ? Dtype::fp16 : Dtype::bf16;
  p.head_dim = draw.once_in(2) ? draw.of(std::array{64, 128, 256}) : 8 * (1 + draw.below(32));
  p.batch = 1 + draw.below(3);
  p.heads_kv = 1 + draw.below(3);
  p.heads_q = p.heads_kv * draw.of(std::array{1, 1, 1, 2, 3, 4, 8});
  p.seqlen_q = draw.once_in(4) ? 1 + draw.below(8) : draw.length(1024);
  p.seqlen_k = draw.once_in(3) ? p.seqlen_q : draw.length(2048);
  // Shorter sequences until the oracle is quick enough.
  while (double{1} * p.batch * p.heads_q * p.seqlen_q * p.seqlen_k * p.head_dim > 0x1p26) {
    if (p.batch > 1)
      --p.batch;
    else if (p.heads_q > p.heads_kv)
      p.heads_q -= p.heads_kv;
    else if (p.seqlen_q >= p.seqlen_k)
      p.seqlen_q -= p.seqlen_q / 4;
    else
      p.seqlen_k -= p.seqlen_k / 4;
  }
  switch (draw.below(6)) {
    case 0:
    case 1: break;
    case 2:
    case 3: p.causal = true; break;
    case 4: p.window_left = draw.below(200), p.window_right = draw.below(200); break;
    default: p.causal = true, p.window_left = draw.below(300); break;
  }
  if (draw.once_in(5)) p.dropout_p = draw.of(std::array{0.1F, 0.25F, 0.5F}), p.dropout_seed = c.seed;
  if (draw.once_in(8)) p.softmax_scale = draw.of(std::array{0.01F, 0.3F, 1.0F});
  const int fill = draw.below(10);
  c.fill = fill < 6    ? Fill::normal
           : fill == 6 ? Fill::outliers
           : fill == 7 ? Fill::growing_maximum
           : fill == 8 ? Fill::nonfinite_v
                       : Fill::constant_scores;
  return c;
}

}  // namespace flashsim::gpu

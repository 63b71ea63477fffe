// Two results about accesses to memory: Theorem 2 of FlashAttention (Dao et al. 2022), and the passes of
// softmax (Milakov and Gimelshein 2018).
#include <fmt/format.h>

#include "cpu_reference/random.h"
#include "cpu_reference/softmax.h"
#include "simulator/cli/presets.h"
#include "simulator/cli/style.h"
#include "simulator/executors/traffic.h"
#include "simulator/report/theory.h"

namespace flashsim::cli {
namespace {

double accesses(Schedule schedule, const Problem& p, const Tiling& t) {
  return double(sum(count_traffic(schedule, p, t)).total().elements());
}

Problem one_head(int n) { return {.seqlen_q = n, .seqlen_k = n, .head_dim = 128}; }

void add_point(PresetResult& r, const std::string& id, const std::string& group, const std::string& label,
               const Problem& p, double m) {
  const Tiling blocks = paper_blocks({.split = WarpSplit::key, .temporaries = Dtype::fp16}, p, m);
  const double standard = accesses(standard_forward, p, {.block_q = p.seqlen_q, .block_k = p.seqlen_k});
  const double flash = accesses(fa1_forward, p, blocks);
  const std::string row = fmt::format("{}, tiles {} x {}", label, blocks.block_q, blocks.block_k);
  const auto add = [&](const char* figure, const char* what, double value, const char* unit, int decimals) {
    r.figures.push_back({id + figure, group, what, value, unit, decimals, {}, "", row});
  };
  add("_standard", "standard", standard / 1e6, "M", 1);
  add("_standard_over_theta", "/ (n d + n^2)", standard / theta_standard(p), "x", 2);
  add("_flash", "fa1", flash / 1e6, "M", 1);
  add("_flash_over_theta", "/ (n^2 d^2 / M)", flash / theta_flash(p, m), "x", 2);
}

}  // namespace

PresetResult preset_io_theorem() {
  PresetResult r;
  r.title = "FlashAttention (Dao et al. 2022), Theorem 2: accesses to memory";
  r.setting =
      "one head, d 128, fp16, forward, Algorithm 1 with its own blocks: B_c = ceil(M / 4d), B_r = min(B_c, "
      "d), "
      "M in elements. The theorem says that a count over its growth rate stays between two constants.";
  for (const int n : {512, 1024, 2048, 4096, 8192, 16384, 32768})
    add_point(r, fmt::format("n{}", n), "n varies, M = 192 KiB", fmt::format("n {:5}", n), one_head(n),
              98304);
  for (const int kib : {48, 96, 192, 384, 768})
    add_point(r, fmt::format("m{}", kib), "M varies, n = 8,192", fmt::format("M {:3} KiB", kib),
              one_head(8192), kib * 1024 / 2.0);
  r.remarks = {
      "Standard attention tends to 4 (n d + n^2): S written and read, P written and read.",
      "FlashAttention tends to 12 + 16 / d times n^2 d^2 / M: T_c = 4 n d / M rounds, each of which reads Q "
      "and O and "
      "writes O (3 n d) and moves l and m (4 n).",
      "Proposition 3: no exact algorithm can grow slower than n^2 d^2 / M for all M between d and n d."};
  return r;
}

PresetResult preset_softmax_accesses() {
  PresetResult r;
  constexpr std::size_t n = 4000;
  constexpr int k = 5;
  r.title = "Online normalizer calculation for softmax (Milakov and Gimelshein 2018): accesses per element";
  r.setting = fmt::format("counted while one vector of {} random numbers is processed; top {} of it", n, k);
  const std::vector<double> values = random_tensor(Distribution::normal, 0, tensor_id::q, n);
  const std::vector<float> x(values.begin(), values.end());
  const auto add = [&](const std::string& id, const std::string& group, const std::string& what,
                       const Accesses& a, double published) {
    r.figures.push_back({id, group, what, a.per_element(n), "", 2, published, ""});
  };
  add("naive", "softmax", "naive: sum, result", naive_softmax(x).accesses, 3);
  add("safe", "softmax", "safe: maximum, sum, result", safe_softmax(x).accesses, 4);
  add("online", "softmax", "online: maximum and sum together, result", online_softmax(x).accesses, 3);
  add("safe_top_k", "softmax and top k", "safe, then top k", safe_softmax_then_top_k(x, k).accesses, 5);
  add("online_top_k", "softmax and top k", "online, then top k", online_softmax_then_top_k(x, k).accesses, 4);
  add("fused_top_k", "softmax and top k", "online with top k in the same pass",
      online_softmax_fused_top_k(x, k).accesses, 1);
  r.remarks = {
      "The paper measures up to 1.3 x on a V100 for vectors of 4,000 and more, as 4 : 3 promises.",
      "FlashAttention uses the same running maximum and sum, and rescales the running output with them."};
  return r;
}

}  // namespace flashsim::cli

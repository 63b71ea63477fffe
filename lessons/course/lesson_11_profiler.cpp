// Lesson 11: reading a profiler. Requested bytes against DRAM bytes, recorded on an H200, and the L2 model
// between them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "lessons/course/texts.h"
#include "lessons/course/tsv.h"
#include "simulator/executors/l2/l2.h"
#include "simulator/report/units.h"

namespace flashsim::course {
namespace {

/// One recorded launch; read bytes.
struct Launch {
  Problem p;
  bool fa2 = false;
  double requested = 0, dram = 0, seconds = 0;
  double counted = 0;  ///< what the schedule requests
  double compulsory() const {
    return 3.0 * p.heads_q * p.batch * double(p.seqlen_q) * p.head_dim * bytes_of(p.dtype);
  }
};

const Launch& find(const std::vector<Launch>& all, bool fa2, bool causal, int heads, int n) {
  for (const Launch& x : all)
    if (x.fa2 == fa2 && x.p.causal == causal && x.p.heads_q == heads && x.p.seqlen_q == n) return x;
  throw std::out_of_range("the record lacks a launch that the lesson quotes");
}

/// FlashAttention-2 as that build of it walks: from the last visible tile to the first.
void fa2_walking_down(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i);
    Blocks cols = visible_cols(p, t, i);
    cols.backwards = true;
    for (Block j : cols) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Pij = sm.matmul_nt(P, Qi, Kj, scale_of(p));
      sm.add_matmul(Oi, Pij, Vj);
    }
    sm.store(O, i, Oi);
  });
}

Tiling tiling_of(const Launch& x) { return {.block_q = 128, .block_k = x.fa2 ? 64 : 128}; }

double read_of_one_head(const Launch& x) {
  Problem p = x.p;
  p.batch = p.heads_q = p.heads_kv = 1;
  return double(counted(fa2_walking_down, p, tiling_of(x)).total().read.bytes);
}

std::vector<Launch> recorded() {
  std::vector<Launch> all;
  std::map<std::tuple<bool, bool, int>, double> counts;
  for (const TsvRow& r : parse_tsv(embedded_text("h200_pytorch_l2_shapes.tsv"))) {
    Launch x;
    x.fa2 = r.at("kernel") == "FA2";
    x.p = heads_of_length(std::stoi(r.at("heads")), std::stoi(r.at("n")), 128);
    x.p.batch = std::stoi(r.at("batch"));
    x.p.causal = r.at("causal") == "1";
    x.requested = std::stod(r.at("xbar_read"));
    x.dram = std::stod(r.at("dram_read"));
    x.seconds = std::stod(r.at("ns")) * 1e-9;
    // Heads are alike, and so are batch entries: one head of each shape is counted.
    const auto [known, is_new] = counts.try_emplace({x.fa2, x.p.causal, x.p.seqlen_q}, 0);
    if (is_new) known->second = read_of_one_head(x);
    x.counted = known->second * x.p.heads_q * x.p.batch;
    all.push_back(x);
  }
  return all;
}

L2Result simulated(const Launch& x, BlockOrder order, std::uint64_t seed) {
  Tiling t = tiling_of(x);
  t.order = order;
  L2Options o;
  o.gpu = find_gpu("h200");
  o.blocks_per_sm = 2;
  o.spilled_bytes_per_block = 7168;  // that it stores in every step beyond O, by the record
  o.dirty_bytes_before = 28'000'000;
  o.seed = 1 + seed;
  return simulate_l2(fa2_walking_down, x.p, t, o);
}

}  // namespace

Facts lesson_profiler(const Settings& s) {
  Facts facts;
  const std::vector<Launch> all = recorded();
  double worst = 0;
  for (const Launch& x : all) worst = std::max(worst, std::abs(x.counted / x.requested - 1));
  facts.number("launches", double(all.size()), "{:.0f}");
  facts.number("worst_percent", 100 * worst, "{:.2f}");

  Table bytes{{"<kernel", "n", "heads", "requested", "counted", "DRAM", "Q, K, V"}, {}};
  for (const auto& [fa2, heads, n] : {std::tuple{true, 64, 8192},
                                      {true, 32, 16384},
                                      {true, 4, 131072},
                                      {false, 64, 8192},
                                      {false, 32, 16384},
                                      {false, 4, 131072}}) {
    const Launch& x = find(all, fa2, false, heads, n);
    bytes.rows.push_back({x.fa2 ? "FA2" : "cuDNN", grouped(n), std::to_string(heads),
                          decimal_bytes(x.requested), decimal_bytes(x.counted), decimal_bytes(x.dram),
                          decimal_bytes(x.compulsory())});
  }
  facts.table("bytes", bytes);

  const Launch& long_one = find(all, true, false, 32, 16384);
  facts.text("requested", decimal_bytes(long_one.requested));
  facts.text("inputs", decimal_bytes(long_one.compulsory()));
  facts.text("dram", decimal_bytes(long_one.dram));
  facts.answer("l2_factor", long_one.requested / long_one.dram, "times", 0.3, "{:.0f}");
  const double flops = counted(fa2_walking_down, long_one.p, tiling_of(long_one)).matmul_flops;
  const Gpu& gpu = *find_gpu("h200");
  facts.number("flop_requested", flops / long_one.requested, "{:.0f}");
  facts.number("flop_dram", flops / long_one.dram, "{:.0f}");
  facts.number("ridge", gpu.flops_per_hbm_byte(Dtype::fp16), "{:.0f}");
  facts.number("tflops", flops / long_one.seconds / 1e12, "{:.0f}");
  facts.number("dram_rate", long_one.dram / long_one.seconds / 1e9, "{:.0f}");

  // The causal launch that reads a hundred times its inputs, and the model's reason.
  const Launch& causal = find(all, true, true, 4, 131072);
  const L2Result short_first = simulated(causal, BlockOrder::first_to_last, s.seed),
                 long_first = simulated(causal, BlockOrder::last_to_first, s.seed);
  const Launch& full = find(all, true, false, 4, 131072);
  const L2Result full_model = simulated(full, BlockOrder::first_to_last, s.seed);
  Table model{{"<FA2, n 131,072, 4 heads", "measured", "model", "of Q, K, V: measured", "model"}, {}};
  const auto add = [&](const char* name, double measured, double simulated_bytes, double inputs) {
    model.rows.push_back({name, measured > 0 ? decimal_bytes(measured) : "-", decimal_bytes(simulated_bytes),
                          measured > 0 ? fmt::format("{:.1f}", measured / inputs) : "-",
                          fmt::format("{:.1f}", simulated_bytes / inputs)});
  };
  add("full", full.dram, full_model.total().dram_read, full.compulsory());
  add("causal, shortest first", causal.dram, short_first.total().dram_read, causal.compulsory());
  add("causal, longest first", 0, long_first.total().dram_read, causal.compulsory());
  facts.table("model", model);
  facts.number("causal_factor", causal.dram / causal.compulsory(), "{:.0f}");
  facts.number("causal_model", short_first.total().dram_read / causal.compulsory(), "{:.0f}");
  facts.number("causal_better", long_first.total().dram_read / causal.compulsory(), "{:.1f}");

  Chart chart;
  chart.id = "requested_and_dram";
  chart.title = "FA2 on an H200: read bytes over Q, K and V (full attention, d 128)";
  chart.x_label = "n";
  chart.y_label = "times the inputs";
  chart.log_x = chart.log_y = true;
  chart.source = "docs/measurements/h200_pytorch_l2_shapes.tsv (NVIDIA H200, 2026-11-29)";
  chart.series.push_back({"requested by the SMs", {}, {}});
  chart.series.push_back({"read from DRAM", {}, {}});
  std::vector<Launch> sorted;
  for (const Launch& x : all)
    if (x.fa2 && !x.p.causal && x.p.heads_q > 1) sorted.push_back(x);
  std::sort(sorted.begin(), sorted.end(),
            [](const Launch& a, const Launch& b) { return a.p.seqlen_q < b.p.seqlen_q; });
  for (const Launch& x : sorted) {
    for (Series& line : chart.series) line.x.push_back(x.p.seqlen_q);
    chart.series[0].y.push_back(x.requested / x.compulsory());
    chart.series[1].y.push_back(x.dram / x.compulsory());
  }
  facts.chart(chart);
  return facts;
}

}  // namespace flashsim::course

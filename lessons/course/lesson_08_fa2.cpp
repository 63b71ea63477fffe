// Lesson 8: what FlashAttention-2 changed. Loop order, the split of work over warps, parallelism.
#include <fmt/format.h>

#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "lessons/course/occupancy.h"
#include "simulator/executors/sram.h"
#include "simulator/report/units.h"

namespace flashsim::course {
namespace {

KernelTraffic loop_of(const std::vector<KernelTraffic>& kernels) {
  for (const KernelTraffic& k : kernels)
    if (k.name == "forward") return k;
  return {};
}

std::int64_t sram_of(Schedule schedule, const Problem& p, const Tiling& t) {
  return sram_use(schedule, p, t, Placement::kernel, std::int64_t{1} << 60).peak_sram;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

}  // namespace

Facts lesson_fa2(const Settings& s) {
  using enum Tensor;
  Facts facts;
  const Problem p = heads_of_length(s.heads, s.n, s.d), one = heads_of_length(1, s.n, s.d);
  const Tiling fa2 = square(p, s.block);
  Tiling fa1 = fa2;
  fa1.split = WarpSplit::key;
  fa1.temporaries = p.dtype;
  const KernelTraffic first = loop_of(count_traffic(fa1_forward, one, fa1)),
                      second = loop_of(count_traffic(fa2_forward, one, fa2));
  Table tensors{{"<tensor", "FA1 reads", "FA1 writes", "FA2 reads", "FA2 writes"}, {}};
  for (const auto& [name, parts] : std::vector<std::pair<const char*, std::vector<Tensor>>>{
           {"Q", {Q}}, {"K and V", {K, V}}, {"O", {O}}, {"l, m, LSE", {l, m, LSE}}}) {
    TensorTraffic a, b;
    for (const Tensor x : parts) {
      a += first.of(x);
      b += second.of(x);
    }
    tensors.rows.push_back({name, decimal_bytes(double(a.read.bytes)), decimal_bytes(double(a.written.bytes)),
                            decimal_bytes(double(b.read.bytes)), decimal_bytes(double(b.written.bytes))});
  }
  facts.table("tensors", tensors);
  const double o_bytes = double(s.n) * s.d * 2;
  facts.answer("o_written", double(first.of(O).written.bytes) / o_bytes, "times", 0.02, "{:.0f}");
  facts.number("o_written_fa2", double(second.of(O).written.bytes) / o_bytes, "{:.0f}");
  facts.text("fa1_bytes", decimal_bytes(double(first.requested_bytes())));
  facts.text("fa2_bytes", decimal_bytes(double(second.requested_bytes())));
  facts.number("bytes_ratio", double(first.requested_bytes()) / double(second.requested_bytes()), "{:.2f}");
  facts.number("other_flops_fa1", double(first.other_flops) / (double(s.n) * s.n), "{:.2f}");
  facts.number("other_flops_fa2", double(second.other_flops) / (double(s.n) * s.n), "{:.2f}");

  // The same schedule, its four warps sharing columns of K or rows of Q.
  Tiling along_keys = fa2;
  along_keys.split = WarpSplit::key;
  const KernelTraffic keys = loop_of(count_traffic(fa2_forward, one, along_keys));
  Table warps{{"<the four warps share", "filled", "fetched", "together"}, {}};
  for (const auto& [name, k] : {std::pair{"columns of K (FA1)", &keys}, {"rows of Q (FA2)", &second}})
    warps.rows.push_back({name, decimal_bytes(double(k->sram_filled)), decimal_bytes(double(k->sram_fetched)),
                          decimal_bytes(double(k->sram_bytes()))});
  facts.table("warps", warps);
  facts.number("warp_ratio", double(keys.sram_bytes()) / double(second.sram_bytes()), "{:.2f}");

  const Gpu& gpu = *s.gpu;
  const std::int64_t sram1 = sram_of(fa1_forward, one, fa1), sram2 = sram_of(fa2_forward, one, fa2);
  const std::int64_t row_blocks_of_head = second.blocks;
  const auto fa1_fill = [&](std::int64_t heads) { return fill_of(gpu, heads, sram1, 32 * fa1.warps); };
  const auto fa2_fill = [&](std::int64_t heads) {
    return fill_of(gpu, heads * row_blocks_of_head, sram2, 32 * fa2.warps);
  };
  facts.answer("busy_percent", 100 * fa1_fill(s.heads).busy_sms, "%", 0.05, "{:.1f}");
  facts.text("busy_fa2", percent(fa2_fill(s.heads).busy_sms));
  facts.number("sms", gpu.sm_count, "{:.0f}");
  facts.number("row_blocks", double(row_blocks_of_head), "{:.0f}");
  Table fill{{"batch x heads", "FA1 blocks", "waves", "SMs busy", "FA2 blocks", "waves", "SMs busy"}, {}};
  Chart chart;
  chart.id = "sms_busy";
  chart.title = fmt::format("{}: share of SMs with work, n {}", gpu.title, s.n);
  chart.x_label = "batch x heads";
  chart.y_label = "%";
  chart.log_x = true;
  chart.source = fmt::format("flashsim lesson run 8 --n {} --d {} --gpu {}", s.n, s.d, gpu.name);
  chart.series.push_back({"FA1: a thread block a head", {}, {}});
  chart.series.push_back({"FA2: one for every row block", {}, {}});
  for (const int heads : {1, 4, 16, 64, 128, 512}) {
    const Fill a = fa1_fill(heads), b = fa2_fill(heads);
    fill.rows.push_back({std::to_string(heads), std::to_string(heads), fmt::format("{:.2f}", a.waves),
                         percent(a.busy_sms), grouped(heads * row_blocks_of_head),
                         fmt::format("{:.2f}", b.waves), percent(b.busy_sms)});
    for (Series& x : chart.series) x.x.push_back(heads);
    chart.series[0].y.push_back(100 * a.busy_sms);
    chart.series[1].y.push_back(100 * b.busy_sms);
  }
  facts.table("fill", fill);
  facts.chart(chart);
  return facts;
}

}  // namespace flashsim::course

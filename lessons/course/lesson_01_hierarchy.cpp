// Lesson 1: the memory hierarchy. Where data fits, how long reading it takes, how many FLOPs a byte must
// feed.
#include <fmt/format.h>

#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "simulator/report/units.h"

namespace flashsim::course {
namespace {

struct Level {
  const char* name;
  double size, bytes_per_s;  ///< 0: not stated
};

Table levels_table(const std::vector<Level>& levels, double bytes) {
  Table t{{"<level", "size", "bytes/s", fmt::format("{} takes", decimal_bytes(bytes)), "<fits?"}, {}};
  for (const Level& l : levels) {
    const bool fits = bytes <= l.size;
    t.rows.push_back({l.name, decimal_bytes(l.size),
                      l.bytes_per_s > 0 ? decimal_bytes(l.bytes_per_s) : "not stated",
                      !fits               ? "-"
                      : l.bytes_per_s > 0 ? seconds(bytes / l.bytes_per_s)
                                          : "?",
                      fits ? "yes" : "no"});
  }
  return t;
}

/// The three kernels of standard attention, executed: FLOPs for each byte they request.
Table intensity_table(const Gpu& gpu, Facts& facts) {
  const Problem p = heads_of_length(1, 4096, 128);
  Table t{{"<kernel", "FLOPs", "bytes", "FLOP/byte", "<waits for"}, {}};
  for (const KernelTraffic& k : count_traffic(standard_forward, p, whole(p))) {
    const double flops = double(k.matmul_flops) + double(k.other_flops), bytes = double(k.requested_bytes());
    const double needed = k.matmul_flops > 0 ? gpu.flops_per_hbm_byte(p.dtype) : 0;
    const bool memory = k.matmul_flops == 0 || flops / bytes < needed;
    t.rows.push_back({k.name, count(flops), decimal_bytes(bytes), fmt::format("{:.1f}", flops / bytes),
                      memory ? "memory" : "arithmetic"});
    if (k.matmul_flops == 0) facts.number("softmax_intensity", flops / bytes, "{:.1f}");
  }
  return t;
}

}  // namespace

Facts lesson_hierarchy(const Settings& s) {
  const Gpu& gpu = *s.gpu;
  const auto bytes = static_cast<double>(s.bytes);
  const double sram = double(gpu.l1_and_shared_bytes_per_sm);
  Facts facts;
  facts.answer("hbm_us", bytes / gpu.hbm_bytes_per_s * 1e6, "us", 0.1, "{:.4g}");
  facts.answer("flops_per_byte", gpu.flops_per_hbm_byte(Dtype::fp16), "FLOP per byte", 0.1, "{:.0f}");
  facts.text("hbm_rate", decimal_bytes(gpu.hbm_bytes_per_s) + "/s");
  facts.text("hbm_size", decimal_bytes(double(gpu.hbm_bytes)));
  facts.text("sram_rate", decimal_bytes(gpu.shared_bytes_per_s()) + "/s");
  facts.text("sram_per_sm", binary_bytes(sram));
  facts.text("sram_all", decimal_bytes(sram * gpu.sm_count));
  facts.number("sms", gpu.sm_count, "{:.0f}");
  facts.number("rate_ratio", gpu.shared_bytes_per_s() / gpu.hbm_bytes_per_s, "{:.1f}");
  facts.number("size_ratio", double(gpu.hbm_bytes) / (sram * gpu.sm_count), "{:.0f}");
  facts.text("fp16_rate", count(gpu.fp16_flops) + "FLOP/s");
  facts.number("passes_ms", bytes / gpu.hbm_bytes_per_s * 1e3 * 100, "{:.2f}");
  const std::vector<Level> levels = {{"registers, all SMs", 4.0 * gpu.registers_per_sm * gpu.sm_count, 0},
                                     {"SRAM of one SM", sram, gpu.shared_bytes_per_s() / gpu.sm_count},
                                     {"SRAM of all SMs", sram * gpu.sm_count, gpu.shared_bytes_per_s()},
                                     {"L2 cache", double(gpu.l2_bytes), gpu.l2_bytes_per_s},
                                     {"HBM", double(gpu.hbm_bytes), gpu.hbm_bytes_per_s}};
  facts.table("levels", levels_table(levels, bytes));
  facts.table("intensity", intensity_table(gpu, facts));

  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.id = "levels";
  chart.title = fmt::format("{}: bytes a second by level", gpu.title);
  chart.x_label = "level";
  chart.y_label = "TB/s";
  chart.source = fmt::format("flashsim lesson run 1 --gpu {}; {}", gpu.name, gpu.source);
  Series rates{"peak", {}, {}};
  for (const Level& l : levels)
    if (l.bytes_per_s > 0) {
      chart.categories.emplace_back(l.name);
      rates.y.push_back(l.bytes_per_s / 1e12);
    }
  chart.series = {rates};
  facts.chart(chart);
  return facts;
}

}  // namespace flashsim::course

// Lesson 5: how many accesses tiling saves. The theorem and the lower bound beside executed counts, and where
// they are loose.
#include <fmt/format.h>

#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "simulator/report/theory.h"
#include "simulator/report/units.h"

namespace flashsim::course {
namespace {

/// FlashAttention with the paper's blocks for M elements of SRAM, executed.
KernelTraffic fa1_with(const Problem& p, double sram_elements) {
  Tiling t = paper_blocks({}, p, sram_elements);
  t.split = WarpSplit::key;
  t.temporaries = p.dtype;
  KernelTraffic loop;
  for (const KernelTraffic& k : count_traffic(fa1_forward, p, t))
    if (k.name != "initialise") loop.add(k);  // the paper does not count line 2 either
  return loop;
}

double accesses(const KernelTraffic& t) { return double(t.total().elements()); }

std::string ratio(double x) { return fmt::format("{:.2f}", x); }

}  // namespace

Facts lesson_io_savings(const Settings& s) {
  using enum Tensor;
  Facts facts;
  const double sram = double(s.gpu->l1_and_shared_bytes_per_sm) / 2;
  const Problem p = heads_of_length(1, s.n, s.d);
  const KernelTraffic standard = counted(standard_forward, p, whole(p)), flash = fa1_with(p, sram);
  const Tiling blocks_used = paper_blocks({}, p, sram);
  facts.text("sram", binary_bytes(2 * sram));
  facts.text("sram_elements", grouped(static_cast<std::int64_t>(sram)));
  facts.text("theta_standard", flashsim::count(theta_standard(p)));
  facts.text("theta_flash", flashsim::count(theta_flash(p, sram)));
  facts.answer("theorem_ratio", theta_standard(p) / theta_flash(p, sram), "times", 0.1, "{:.2f}");
  facts.answer("counted_ratio", accesses(standard) / accesses(flash), "times", 0.25, "{:.2f}");
  facts.text("counted_standard", flashsim::count(accesses(standard)));
  facts.text("counted_flash", flashsim::count(accesses(flash)));
  facts.number("block_k", blocks_used.block_k, "{:.0f}");
  facts.number("visits", double(blocks(s.n, blocks_used.block_k).count()), "{:.0f}");
  facts.number("o_written", double(flash.of(O).written.elements) / (double(s.n) * s.d), "{:.0f}");
  facts.number("counted_flash_elements", accesses(flash), "{:.0f}");
  facts.text("extra_standard", decimal_bytes(double(standard.of(S).written.bytes)));
  facts.text("extra_flash", decimal_bytes(8.0 * s.n));

  Table sizes{{"<SRAM", "B_c", "visits", "n^2 d^2 / M", "counted", "counted / theorem", "saves"}, {}};
  for (const double share : {0.25, 0.5, 1.0, 2.0, 8.0, 32.0}) {
    const double m = sram * share;
    const KernelTraffic t = fa1_with(p, m);
    const Tiling b = paper_blocks({}, p, m);
    sizes.rows.push_back({binary_bytes(2 * m), std::to_string(b.block_k),
                          std::to_string(blocks(s.n, b.block_k).count()), flashsim::count(theta_flash(p, m)),
                          flashsim::count(accesses(t)), ratio(accesses(t) / theta_flash(p, m)),
                          ratio(accesses(standard) / accesses(t))});
  }
  facts.table("sizes", sizes);

  Table dims{{"d", "standard", "FlashAttention", "saves", "theorem says"}, {}};
  Chart chart;
  chart.id = "io_savings";
  chart.title = fmt::format("Accesses of one head over n (d {}, M {} elements)", s.d, sram);
  chart.x_label = "n";
  chart.y_label = "elements";
  chart.log_x = chart.log_y = true;
  chart.source = fmt::format("flashsim lesson run 5 --d {} --gpu {}", s.d, s.gpu->name);
  for (const int d : {32, 64, 128, 256}) {
    const Problem q = heads_of_length(1, s.n, d);
    const double a = accesses(counted(standard_forward, q, whole(q))), b = accesses(fa1_with(q, sram));
    dims.rows.push_back({std::to_string(d), flashsim::count(a), flashsim::count(b), ratio(a / b),
                         ratio(theta_standard(q) / theta_flash(q, sram))});
  }
  facts.table("dims", dims);

  chart.series.push_back({"standard, counted", {}, {}});
  chart.series.push_back({"FlashAttention, counted", {}, {}});
  chart.series.push_back({"Q, K, V, O once", {}, {}});
  Table lengths{{"n", "standard", "FlashAttention", "inputs, outputs once", "saves"}, {}};
  for (int n = 512; n <= 32768; n *= 2) {
    const Problem q = heads_of_length(1, n, s.d);
    const double a = accesses(counted(standard_forward, q, whole(q))), b = accesses(fa1_with(q, sram));
    if (n == 512 || n == 2048 || n == 8192 || n == 32768)
      lengths.rows.push_back({grouped(n), flashsim::count(a), flashsim::count(b),
                              flashsim::count(compulsory_accesses(q)), ratio(a / b)});
    for (Series& x : chart.series) x.x.push_back(n);
    chart.series[0].y.push_back(a);
    chart.series[1].y.push_back(b);
    chart.series[2].y.push_back(compulsory_accesses(q));
  }
  facts.table("lengths", lengths);
  facts.chart(chart);
  return facts;
}

}  // namespace flashsim::course

// Lesson 2: standard attention writes S and P to HBM and reads them back. Counted over the length.
#include <fmt/format.h>

#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "simulator/report/units.h"

namespace flashsim::course {

Facts lesson_round_trips(const Settings& s) {
  using enum Tensor;
  Facts facts;
  const Problem p = heads_of_length(s.heads, s.n, s.d);
  const std::vector<KernelTraffic> kernels = count_traffic(standard_forward, p, whole(p));
  const KernelTraffic all = sum(kernels);
  const double layer = double(all.requested_bytes()), head = layer / s.heads;
  const double matrix = double(all.of(S).written.bytes) / s.heads;
  const double scores = double(all.of(S).bytes() + all.of(P).bytes());

  facts.answer("matrix_mb", matrix / 1e6, "MB", 0.05, "{:.2f}");
  facts.answer("score_percent", 100 * scores / layer, "%", 0.05, "{:.1f}");
  facts.text("head_bytes", decimal_bytes(head));
  facts.text("layer_bytes", decimal_bytes(layer));
  facts.text("layer_matrix", decimal_bytes(matrix * s.heads));
  facts.text("input_bytes", decimal_bytes(double(all.of(Q).read.bytes) / s.heads));
  facts.number("layer_seconds", layer / s.gpu->hbm_bytes_per_s, "{:.3g}");
  facts.text("layer_time", seconds(layer / s.gpu->hbm_bytes_per_s));
  facts.text("sram_all", decimal_bytes(double(s.gpu->l1_and_shared_bytes_per_sm) * s.gpu->sm_count));
  facts.number("head_elements", double(all.total().elements()) / s.heads, "{:.0f}");
  // Elements of S over all heads no longer fit a 32-bit index from this many heads on.
  const double per_head = double(s.n) * s.n;
  facts.number("int32_heads", 2147483648.0 / per_head + 1, "{:.0f}");

  Table by_kernel{{"<kernel", "reads", "writes", "S and P"}, {}};
  for (const KernelTraffic& k : kernels) {
    const TensorTraffic t = k.total();
    by_kernel.rows.push_back({k.name, decimal_bytes(double(t.read.bytes) / s.heads),
                              decimal_bytes(double(t.written.bytes) / s.heads),
                              decimal_bytes(double(k.of(S).bytes() + k.of(P).bytes()) / s.heads)});
  }
  facts.table("by_kernel", by_kernel);

  Table lengths{{"n", "S", "requested", "S and P", fmt::format("{} heads", s.heads), "time"}, {}};
  Chart chart;
  chart.id = "round_trips";
  chart.title = fmt::format("Standard attention: requested bytes of one head (d {}, fp16)", s.d);
  chart.x_label = "n";
  chart.y_label = "bytes";
  chart.log_x = chart.log_y = true;
  chart.source = fmt::format("flashsim lesson run 2 --d {}", s.d);
  chart.series.push_back({"S and P", {}, {}});
  chart.series.push_back({"Q, K, V, O", {}, {}});
  for (int n = 256; n <= 32768; n *= 2) {
    const Problem q = heads_of_length(1, n, s.d);
    const KernelTraffic t = counted(standard_forward, q, whole(q));
    const double bytes = double(t.requested_bytes());
    const double square = double(t.of(S).bytes() + t.of(P).bytes());
    lengths.rows.push_back({grouped(n), decimal_bytes(double(t.of(S).written.bytes)), decimal_bytes(bytes),
                            fmt::format("{:.1f} %", 100 * square / bytes), decimal_bytes(bytes * s.heads),
                            seconds(bytes * s.heads / s.gpu->hbm_bytes_per_s)});
    for (Series& x : chart.series) x.x.push_back(n);
    chart.series[0].y.push_back(square);
    chart.series[1].y.push_back(bytes - square);
  }
  facts.table("lengths", lengths);
  facts.chart(chart);
  return facts;
}

}  // namespace flashsim::course

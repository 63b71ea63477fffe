// Lesson 10: decoding. One query, many keys: K and V rule, and splitting the keys fills the GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cpu_reference/random.h"
#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "lessons/course/occupancy.h"
#include "simulator/executors/exactness.h"
#include "simulator/executors/sram.h"
#include "simulator/report/units.h"

namespace flashsim::course {
namespace {

constexpr int group = 8;  ///< query heads that share a K/V head

Problem decoding_problem(int kv_heads, int n, int d) {
  Problem p = heads_of_length(kv_heads, n, d);
  p.heads_q = kv_heads * group;
  p.seqlen_q = 1;
  return p;
}

Tiling with_splits(const Problem& p, int splits) {
  Tiling t = find_algorithm("decoding")->tiling(p);
  t.block_k = std::min(t.block_k, p.seqlen_k);
  t.num_splits = splits;
  return t;
}

/// The same query with more and more splits, in fp32: O against the oracle, and against O of one split.
void numbers(Facts& facts, const Settings& s) {
  Problem p = decoding_problem(1, 2048, 64);
  p.dtype = Dtype::fp32;
  const auto make = [&](std::uint32_t id, int rows) {
    return random_tensor(Distribution::normal, s.seed, id, static_cast<std::size_t>(rows) * 64);
  };
  const Truth truth =
      truth_of(p, make(tensor_id::q, group), make(tensor_id::k, 2048), make(tensor_id::v, 2048), {});
  const Algorithm& decoding = *find_algorithm("decoding");
  std::vector<double> one;
  Table t{{"splits", "from exact", "may be", "from 1 split", "elements that differ"}, {}};
  for (const int splits : {1, 2, 4, 8, 16}) {
    ForwardResult got;
    const Tiling tiling = with_splits(p, splits);
    const Comparison c = check_forward(program_of(decoding.forward, p, tiling),
                                       roundings_of(decoding, p, tiling), p, tiling, truth, &got)
                             .front();
    if (one.empty()) one = got.o;
    double most = 0;
    int differ = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      most = std::max(most, std::abs(got.o[i] - one[i]));
      differ += got.o[i] != one[i] ? 1 : 0;
    }
    t.rows.push_back({std::to_string(splits), fmt::format("{:.1e}", c.error),
                      fmt::format("{:.1e}", c.tolerance), most == 0 ? "0" : fmt::format("{:.1e}", most),
                      fmt::format("{} of {}", differ, one.size())});
    if (splits == 16) facts.number("splits_differ", differ, "{:.0f}");
  }
  facts.table("numbers", t);
}

// As published: the Flash-Decoding post (2023), A100, fp16, 16 query and 2 K/V heads, d 128; microseconds.
struct PublishedTimes {
  int batch, n;
  double eager, fa2, decoding;
};
constexpr PublishedTimes post[] = {{256, 256, 3058.6, 390.5, 63.4},
                                   {16, 4096, 3157, 401.7, 57},
                                   {1, 65536, 1335.6, 2300.6, 64.4},
                                   {1, 131072, 2664, 4592.2, 106.6}};

}  // namespace

Facts lesson_decoding(const Settings& s) {
  using enum Tensor;
  Facts facts;
  const Gpu& gpu = *s.gpu;
  const Problem p = decoding_problem(s.heads, s.n, s.d);
  const KernelTraffic one = counted(decoding_forward, p, with_splits(p, 1));
  const double kv = double(one.of(K).bytes() + one.of(V).bytes());
  facts.text("kv_bytes", decimal_bytes(kv));
  facts.answer("kv_us", kv / gpu.hbm_bytes_per_s * 1e6, "us", 0.1, "{:.4g}");
  facts.number("kv_percent", 100 * kv / double(one.requested_bytes()), "{:.2f}");
  facts.answer("intensity", double(one.matmul_flops) / double(one.requested_bytes()), "FLOP per byte", 0.15,
               "{:.1f}");
  facts.number("ridge", gpu.flops_per_hbm_byte(p.dtype), "{:.0f}");
  facts.number("group", group, "{:.0f}");
  facts.number("heads_q", p.heads_q, "{:.0f}");
  facts.number("sms", gpu.sm_count, "{:.0f}");
  facts.answer("splits", std::ceil(double(gpu.sm_count) / s.heads), "splits", 0.02, "{:.0f}");

  Table t{{"splits", "thread blocks", "SMs busy", "requested", "for the merge", "limit"}, {}};
  Chart chart;
  chart.id = "splits";
  chart.title =
      fmt::format("Decoding on {}: time limit over splits ({} keys, {} K/V heads)", gpu.title, s.n, s.heads);
  chart.x_label = "splits";
  chart.y_label = "us";
  chart.log_x = chart.log_y = true;
  chart.source = fmt::format("flashsim lesson run 10 --n {} --heads {} --gpu {}", s.n, s.heads, gpu.name);
  chart.series.push_back({"K and V at HBM rate, shared by the busy SMs", {}, {}});
  for (int splits = 1; splits <= 256; splits *= 2) {
    if (splits > (s.n + 63) / 64) break;
    const Tiling tiling = with_splits(p, splits);
    const std::vector<KernelTraffic> kernels = count_traffic(decoding_forward, p, tiling);
    const KernelTraffic all = sum(kernels);
    const std::int64_t blocks = kernels.front().blocks;
    const double busy = std::min(1.0, double(blocks) / gpu.sm_count);
    const double rate = gpu.hbm_bytes_per_s * busy;  // every SM draws its share, and no more
    const double parts = double(all.of(O_part).bytes() + all.of(LSE_part).bytes());
    const double limit = double(all.requested_bytes()) / rate;
    t.rows.push_back({std::to_string(splits), grouped(blocks), fmt::format("{:.0f} %", 100 * busy),
                      decimal_bytes(double(all.requested_bytes())), decimal_bytes(parts), seconds(limit)});
    chart.series[0].x.push_back(splits);
    chart.series[0].y.push_back(limit * 1e6);
  }
  facts.table("splits", t);
  facts.chart(chart);
  numbers(facts, s);

  Table published{{"batch", "keys", "eager", "FA2", "Flash-Decoding", "K, V at 2 TB/s"}, {}};
  for (const PublishedTimes& row : post) {
    const KernelTraffic k = counted(decoding_forward, decoding_problem(2, row.n, 128),
                                    with_splits(decoding_problem(2, row.n, 128), 1));
    const double bytes = double(k.of(K).bytes() + k.of(V).bytes()) * row.batch;
    published.rows.push_back({std::to_string(row.batch), grouped(row.n), fmt::format("{:.1f} us", row.eager),
                              fmt::format("{:.1f} us", row.fa2), fmt::format("{:.1f} us", row.decoding),
                              seconds(bytes / 2e12)});
  }
  facts.table("published", published);
  return facts;
}

}  // namespace flashsim::course

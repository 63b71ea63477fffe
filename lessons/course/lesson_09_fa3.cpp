// Lesson 9: FlashAttention-3. What can overlap and how long it takes, what asynchrony costs in SRAM, what the
// parts were worth on a GPU, fp8 with and without incoherent processing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cpu_reference/hadamard.h"
#include "cpu_reference/oracle.h"
#include "cpu_reference/random.h"
#include "cpu_reference/rounding.h"
#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "lessons/course/texts.h"
#include "simulator/executors/numeric.h"
#include "simulator/executors/sram.h"
#include "simulator/report/units.h"

namespace flashsim::course {
namespace {

Tiling fa3_tiling(const Problem& p) { return find_algorithm("fa3")->tiling(p); }

void overlap(Facts& facts, const Settings& s) {
  const Gpu& gpu = *s.gpu;
  const Problem p = heads_of_length(1, s.n, s.d);
  const KernelTraffic k = counted(fa3_forward, p, fa3_tiling(p));
  const double products = double(k.matmul_flops) / gpu.fp16_flops, exps = double(k.exps) / gpu.exp_per_s();
  facts.answer("exp_percent", 100 * exps / products, "%", 0.1, "{:.0f}");
  facts.text("fp16_rate", count(gpu.fp16_flops) + "FLOP/s");
  facts.text("exp_rate", count(gpu.exp_per_s()));
  facts.number("rate_ratio", gpu.fp16_flops / gpu.exp_per_s(), "{:.0f}");
  facts.text("matmul_flops", count(double(k.matmul_flops)));
  facts.text("exps", count(double(k.exps)));
  facts.number("serial", 1 + exps / products, "{:.2f}");
  Table t{{"<products in", "products", "exp", "one after the other", "overlapped", "gain"}, {}};
  for (const Dtype dtype : {Dtype::fp16, Dtype::e4m3}) {
    const double rate = gpu.matmul_flops(dtype);
    if (rate == 0) {
      t.rows.push_back({dtype == Dtype::fp16 ? "fp16" : "fp8", "no such unit"});
      continue;
    }
    const double a = double(k.matmul_flops) / rate;
    t.rows.push_back({dtype == Dtype::fp16 ? "fp16" : "fp8", seconds(a), seconds(exps), seconds(a + exps),
                      seconds(std::max(a, exps)), fmt::format("{:.2f}", (a + exps) / std::max(a, exps))});
  }
  facts.table("overlap", t);

  Table stages{{"stages", "shared memory", "fits?"}, {}};
  for (int n = 1; n <= 3; ++n) {
    Tiling tiling = fa3_tiling(p);
    tiling.stages = n;
    const SramUse use = sram_use(fa3_forward, p, tiling, Placement::kernel, std::int64_t{1} << 60);
    stages.rows.push_back({std::to_string(n), binary_bytes(double(use.peak_sram)),
                           use.peak_sram <= gpu.shared_bytes_per_block ? "yes" : "no"});
  }
  facts.table("stages", stages);
}

// As published: Shah et al. 2024, table 2 (H100, fp16, batch 4, n 8448, 16 heads, d 128, forward).
struct Published {
  const char* what;
  double ms, tflops;
};
constexpr Published ablation[] = {{"all of it", 3.538, 661},
                                  {"no overlap of softmax with products", 4.021, 582},
                                  {"no roles (no warp specialisation)", 4.105, 570}};

void published(Facts& facts) {
  Table t{{"<published, H100", "ms", "TFLOP/s", "slower by"}, {}};
  for (const Published& row : ablation)
    t.rows.push_back({row.what, fmt::format("{:.3f}", row.ms), fmt::format("{:.0f}", row.tflops),
                      fmt::format("{:.0f} %", 100 * (row.ms / ablation[0].ms - 1))});
  facts.table("published", t);
}

/// Our kernel and its variants on an H200, from the record of `flashsim bench --suite gap`.
void recorded(Facts& facts) {
  const nlohmann::json record = nlohmann::json::parse(embedded_text("gpu_bench_gap.json"));
  struct Step {
    const char *kernel, *what;
  };
  constexpr Step steps[] = {{"fa2", "FlashAttention-2, for comparison"},
                            {"fa3/no-specialisation", "no roles: a computing thread loads, too"},
                            {"fa3/no-overlap", "no overlap: products wait for the softmax"},
                            {"fa3/no-pingpong", "no turns between the two groups"},
                            {"fa3/online-max", "as published: roles, turns and overlap"},
                            {"fa3", "exp with the maximum of the block before"}};
  std::map<std::string, nlohmann::json> results;
  for (const nlohmann::json& r : record.at("results"))
    if (r.at("pass") == "forward" && r.at("problem").at("head_dim") == 128) results[r.at("kernel")] = r;
  const auto seconds_of = [&](const char* kernel) {
    const auto found = results.find(kernel);
    if (found == results.end())
      throw std::out_of_range("the record lacks " + std::string(kernel) + ", which lesson 9 quotes");
    return found->second.at("seconds_median").get<double>();
  };
  const nlohmann::json& problem = results.at("fa3").at("problem");
  const double flops = results.at("fa3").at("flops"), published_form = seconds_of("fa3/online-max");
  Table t{{"<variant", "ms", "TFLOP/s", "faster by"}, {}};
  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.id = "fa3_recorded";
  chart.title = fmt::format("FlashAttention-3's parts on an H200: n {}, {} heads, batch {}, d {}, {}",
                            problem.at("seqlen_q").get<int>(), problem.at("heads_q").get<int>(),
                            problem.at("batch").get<int>(), problem.at("head_dim").get<int>(),
                            problem.at("dtype").get<std::string>());
  chart.x_label = "variant";
  chart.y_label = "TFLOP/s";
  chart.source = fmt::format("docs/measurements/gpu_bench_gap.json ({}, {})",
                             record.at("device").at("name").get<std::string>(),
                             record.at("date").get<std::string>().substr(0, 10));
  chart.series.push_back({"measured", {}, {}});
  for (const Step& s : steps) {
    const double time = seconds_of(s.kernel);
    t.rows.push_back({s.what, fmt::format("{:.3f}", 1e3 * time), fmt::format("{:.0f}", flops / time / 1e12),
                      std::string_view(s.kernel) == "fa3/online-max"
                          ? "-"
                          : fmt::format("{:+.0f} %", 100 * (published_form / time - 1))});
    chart.categories.emplace_back(s.kernel);
    chart.series[0].y.push_back(flops / time / 1e12);
  }
  facts.table("recorded", t);
  facts.chart(chart);
  facts.text("recorded_on", fmt::format("{}, {}", record.at("device").at("name").get<std::string>(),
                                        record.at("date").get<std::string>().substr(0, 10)));
  facts.text(
      "recorded_problem",
      fmt::format("n {}, {} heads, batch {}, d {}, {}, forward", grouped(problem.at("seqlen_q").get<int>()),
                  problem.at("heads_q").get<int>(), problem.at("batch").get<int>(),
                  problem.at("head_dim").get<int>(), problem.at("dtype").get<std::string>()));
  const int n = problem.at("seqlen_q"), block_k = results.at("fa3").at("tiling").at("block_k");
  facts.text("recorded_n", grouped(n));
  facts.text("recorded_blocks", grouped((n + block_k - 1) / block_k));
  facts.number("recorded_no_roles", 100 * (seconds_of("fa3/no-specialisation") / published_form - 1),
               "{:.0f}");
  facts.number("recorded_no_overlap", 100 * (seconds_of("fa3/no-overlap") / published_form - 1), "{:.0f}");
  facts.number("recorded_gain", flops / seconds_of("fa3") / (flops / seconds_of("fa2")), "{:.1f}");
  facts.number("recorded_no_turns", 100 * (seconds_of("fa3/no-pingpong") / published_form - 1), "{:+.0f}");
}

/// Root mean square error of O against fp64, inputs with outliers, 64 queries of two heads.
double rmse(Dtype dtype, bool block_scales, bool incoherent, const std::vector<double>& q,
            const std::vector<double>& k, const std::vector<double>& v, const std::vector<double>& truth) {
  Problem p = heads_of_length(2, 64, 128);
  p.seqlen_k = static_cast<int>(k.size() / 256);
  p.dtype = dtype;
  Tiling t = fa3_tiling(p);
  t.block_q = 64;
  t.fp8_block_scales = block_scales;
  t.fp8_incoherent_processing = incoherent;
  const std::vector<double> o = run_forward(*find_algorithm("fa3"), p, t, q, k, v).o;
  double sum = 0;
  for (std::size_t i = 0; i < o.size(); ++i) sum += (o[i] - truth[i]) * (o[i] - truth[i]);
  return std::sqrt(sum / double(o.size()));
}

void eight_bits(Facts& facts, const Settings& s) {
  const auto make = [&](std::uint32_t id, std::size_t rows) {
    std::vector<double> x = random_tensor(Distribution::outliers, 8 + s.seed, id, rows * 128);
    round_to(Dtype::fp16, x.data(), x.size());
    return x;
  };
  const std::vector<double> q = make(tensor_id::q, 128), k = make(tensor_id::k, 8192),
                            v = make(tensor_id::v, 8192);
  Problem p = heads_of_length(2, 64, 128);
  p.seqlen_k = 4096;
  const std::vector<double> truth = oracle_forward(p, q, k, v).o;
  const auto error = [&](Dtype dtype, bool scales, bool rotate) {
    return rmse(dtype, scales, rotate, q, k, v, truth);
  };
  const double full = error(Dtype::e4m3, true, true), plain = error(Dtype::e4m3, true, false);
  Table t{{"<FA3 on inputs with outliers", "error here", "published"}, {}};
  const auto add = [&](const char* name, double here, const char* there) {
    t.rows.push_back({name, fmt::format("{:.1e}", here), there});
  };
  add("fp16", error(Dtype::fp16, true, true), "1.9e-04");
  add("fp8, a scale a tile, rotated", full, "9.1e-03");
  const double one_scale = error(Dtype::e4m3, false, true);
  add("fp8, one scale a head, rotated", one_scale, "9.3e-03");
  facts.number("scale_gain", one_scale / full, "{:.1f}");
  add("fp8, a scale a tile, not rotated", plain, "2.4e-02");
  add("fp8, neither", error(Dtype::e4m3, false, false), "2.4e-02");
  facts.table("fp8", t);
  facts.answer("rotation_gain", plain / full, "times", 0.4, "{:.1f}");

  // One row with an outlier, before and after rotation.
  std::vector<double> row(128);
  fill_random(Distribution::normal, s.seed, 7, 0, row.data(), row.size());
  row[5] = 30;
  const auto largest = [&] {
    double most = 0;
    for (const double x : row) most = std::max(most, std::abs(x));
    return most;
  };
  const auto length = [&] {
    double sum = 0;
    for (const double x : row) sum += x * x;
    return std::sqrt(sum);
  };
  facts.number("largest_before", largest(), "{:.1f}");
  facts.number("length_before", length(), "{:.2f}");
  rotate_rows(row.data(), 1, 128, 1);
  facts.number("largest_after", largest(), "{:.1f}");
  facts.number("length_after", length(), "{:.2f}");
}

}  // namespace

Facts lesson_fa3(const Settings& s) {
  Facts facts;
  overlap(facts, s);
  published(facts);
  recorded(facts);
  eight_bits(facts, s);
  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.id = "fa3_ablation";
  chart.title = "FlashAttention-3, forward, as published (H100, n 8448, d 128, fp16)";
  chart.x_label = "variant";
  chart.y_label = "TFLOP/s";
  chart.source = "published: Shah et al. 2024, FlashAttention-3, ablation table";
  chart.series.push_back({"published", {}, {}});
  for (const Published& row : ablation) {
    chart.categories.emplace_back(row.what);
    chart.series[0].y.push_back(row.tflops);
  }
  facts.chart(chart);
  return facts;
}

}  // namespace flashsim::course

// Lesson 12: where 40.3 GB come from, and mistakes in well-known texts, executed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cpu_reference/oracle.h"
#include "cpu_reference/random.h"
#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "lessons/course/texts.h"
#include "lessons/course/tsv.h"
#include "lessons/course/wrong_formulas.h"
#include "simulator/executors/numeric.h"
#include "simulator/report/units.h"

namespace flashsim::course {
namespace {

// As published: FlashAttention (Dao et al. 2022), figure 2, left. GPT-2 medium, A100 40 GB, fp16, both
// passes.
constexpr double published_standard_gb = 40.3, published_flash_gb = 4.4, published_standard_gflops = 66.6,
                 published_flash_gflops = 75.2, published_standard_ms = 41.7, published_flash_ms = 7.3;

Problem gpt2_medium() {
  Problem p = heads_of_length(16, 1024, 64);
  p.batch = 64;
  return p;
}

struct Pass {
  KernelTraffic sum;
  double n_by_n = 0, n_by_d = 0;  ///< passes over a matrix of that shape
};

Pass passes_of(const std::vector<KernelTraffic>& kernels, const Problem& p) {
  Pass x{sum(kernels), 0, 0};
  const double heads = double(p.batch) * p.heads_q, square_size = double(p.seqlen_q) * p.seqlen_k * heads,
               rows = double(p.seqlen_q) * p.head_dim * heads;
  for (int i = 0; i < tensor_count; ++i) {
    const auto tensor = static_cast<Tensor>(i);
    const double elements_moved = double(x.sum.of(tensor).elements());
    if (is_score_shaped(tensor)) {
      x.n_by_n += elements_moved / square_size;
    } else if (!is_row_vector(tensor)) {
      x.n_by_d += elements_moved / rows;
    }
  }
  return x;
}

std::vector<KernelTraffic> eager_kernels(const Problem& p) {
  std::vector<KernelTraffic> all =
      count_traffic([&](Device& gpu) { standard_eager_forward(gpu, p, whole(p), {}); }, p, whole(p));
  for (KernelTraffic& k :
       count_traffic([&](Device& gpu) { standard_eager_backward(gpu, p, whole(p), {}); }, p, whole(p)))
    all.push_back(std::move(k));
  return all;
}

/// Counted kernels beside the counters, in the order both run. The framework's matrix library decides
/// which of the last two is dQ.
void beside_the_counters(Facts& facts, const std::vector<KernelTraffic>& kernels) {
  std::vector<TsvRow> rows;
  for (const TsvRow& r : parse_tsv(embedded_text("h200_pytorch_gpt2_medium_dram.tsv")))
    if (r.at("run") == "standard") rows.push_back(r);
  Table t{{"<kernel", "counted", "measured", "difference"}, {}};
  double all = 0, flash = 0;
  for (const TsvRow& r : parse_tsv(embedded_text("h200_pytorch_gpt2_medium_dram.tsv")))
    if (r.at("run") == "flash2") flash += std::stod(r.at("dram_read")) + std::stod(r.at("dram_write"));
  facts.number("measured_flash_gb", flash / 1e9, "{:.2f}");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double dram = std::stod(rows[i].at("dram_read")) + std::stod(rows[i].at("dram_write"));
    all += dram;
    if (i >= kernels.size()) continue;
    const double bytes = double(kernels[i].requested_bytes());
    t.rows.push_back({kernels[i].name, decimal_bytes(bytes), decimal_bytes(dram),
                      fmt::format("{:+.1f} %", 100 * (bytes / dram - 1))});
  }
  facts.table("kernels", t);
  facts.number("measured_gb", all / 1e9, "{:.2f}");
}

void detective(Facts& facts) {
  const Problem p = gpt2_medium();
  const std::vector<KernelTraffic> kernels = eager_kernels(p);
  const Pass eager = passes_of(kernels, p);
  std::vector<KernelTraffic> papers = count_traffic(standard_forward, p, whole(p));
  for (KernelTraffic& k : count_traffic(standard_backward, p, whole(p))) papers.push_back(std::move(k));
  const Pass textbook = passes_of(papers, p);
  facts.answer("passes", eager.n_by_n, "passes", 0.03, "{:.0f}");
  facts.number("passes_d", eager.n_by_d, "{:.0f}");
  facts.number("textbook_passes", textbook.n_by_n, "{:.0f}");
  facts.number("eager_gb", double(eager.sum.requested_bytes()) / 1e9, "{:.2f}");
  facts.number("textbook_gb", double(textbook.sum.requested_bytes()) / 1e9, "{:.1f}");
  const double w = 2.0 * 1024 * 1024 * 1024, u = 2.0 * 1024 * 64 * 1024;
  facts.number("w_gb", w / 1e9, "{:.3f}");
  facts.number("u_gb", u / 1e9, "{:.3f}");
  facts.number("kernels", double(kernels.size()), "{:.0f}");
  beside_the_counters(facts, kernels);

  Table fa1{{"B_c", "forward", "forward + backward"}, {}};
  double flash_flops = 0;
  for (const int block_k : {128, 256, 384, 512}) {
    const Tiling t{.block_q = 64, .block_k = block_k, .split = WarpSplit::key, .temporaries = Dtype::fp16};
    const auto bytes = [&](Schedule schedule) {
      double sum_of = 0;
      for (const KernelTraffic& k : count_traffic(schedule, p, t))
        if (k.name != "initialise") sum_of += double(k.requested_bytes()) / 1e9;
      return sum_of;
    };
    const double forward = bytes(fa1_forward), both = forward + bytes(fa1_backward);
    fa1.rows.push_back(
        {std::to_string(block_k), fmt::format("{:.2f} GB", forward), fmt::format("{:.2f} GB", both)});
    facts.number(fmt::format("fa1_{}_gb", block_k), both, "{:.2f}");
  }
  facts.table("fa1", fa1);
  const Tiling t{.block_q = 64, .block_k = 256, .split = WarpSplit::key, .temporaries = Dtype::fp16};
  flash_flops = double(counted(fa1_forward, p, t).matmul_flops + counted(fa1_backward, p, t).matmul_flops);
  facts.answer("gflops", double(eager.sum.matmul_flops) / 1e9, "GFLOP", 0.05, "{:.1f}");
  facts.number("flash_gflops", flash_flops / 1e9, "{:.1f}");
  facts.number("flops_percent", 100 * (flash_flops / double(eager.sum.matmul_flops) - 1), "{:.0f}");
  facts.number("published_percent", 100 * (published_flash_gflops / published_standard_gflops - 1), "{:.0f}");

  Table row{{"<published", "GFLOPs", "HBM GB", "ms"}, {}};
  row.rows.push_back({"standard attention", fmt::format("{}", published_standard_gflops),
                      fmt::format("{}", published_standard_gb), fmt::format("{}", published_standard_ms)});
  row.rows.push_back({"FlashAttention", fmt::format("{}", published_flash_gflops),
                      fmt::format("{}", published_flash_gb), fmt::format("{}", published_flash_ms)});
  facts.table("row", row);
}

/// Largest error of O in fp32, with Q stretched so that scores grow.
double error_of(Schedule schedule, double stretch, std::uint64_t seed) {
  Problem p = heads_of_length(1, 64, 32);
  p.dtype = Dtype::fp32;
  const Tiling t = square(p, 16);
  const auto make = [&](std::uint32_t id) { return random_tensor(Distribution::normal, seed, id, 64 * 32); };
  std::vector<double> q = make(tensor_id::q);
  const std::vector<double> k = make(tensor_id::k), v = make(tensor_id::v);
  for (double& x : q) x *= stretch;
  // Both get the same fp32 inputs.
  const auto narrow = [](std::vector<double> x) {
    for (double& y : x) y = static_cast<float>(y);
    return x;
  };
  const std::vector<double> a = narrow(q), b = narrow(k), c = narrow(v);
  const std::vector<double> truth = oracle_forward(p, a, b, c).o;
  const std::vector<double> o = run_forward(program_of(schedule, p, t), p, t, a, b, c).o;
  double most = 0;
  for (std::size_t i = 0; i < o.size(); ++i) {
    const double error = std::abs(o[i] - truth[i]);
    if (!(error <= most)) most = error;
    if (std::isnan(most)) return most;
  }
  return most;
}

void wrong(Facts& facts, const Settings& s) {
  Table t{{"<formula", "scores of about 1", "of about 100"}, {}};
  const auto shown = [](double error) {
    if (std::isnan(error)) return std::string("not a number");
    return std::isinf(error) ? std::string("infinite") : fmt::format("{:.1e}", error);
  };
  const auto add = [&](const char* name, const char* id, Schedule schedule) {
    const double small = error_of(schedule, 1, s.seed), large = error_of(schedule, 100, s.seed);
    t.rows.push_back({name, shown(small), shown(large)});
    facts.number(fmt::format("{}_small", id), small, "{:.1e}");
    facts.text(fmt::format("{}_large", id), shown(large));
  };
  add("FlashAttention-2 as it is", "right", fa2_forward);
  add("1. factor inverted", "inverted", inverted_correction);
  add("2. divided on every visit, not undone", "divided", divided_every_visit);
  add("3. maximum taken out: exp(-m) sum exp(x) V", "outside", maximum_outside);
  facts.table("wrong", t);
}

}  // namespace

Facts lesson_detective(const Settings& s) {
  Facts facts;
  detective(facts);
  wrong(facts, s);
  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.id = "gpt2_medium";
  chart.title = "GPT-2 medium, forward + backward: GB that move";
  chart.x_label = "what is counted";
  chart.y_label = "GB";
  chart.categories = {"standard, published",          "eager, counted",        "eager, DRAM of an H200",
                      "the paper's kernels, counted", "FA1, B_c 256, counted", "FA1, published"};
  chart.source =
      "flashsim lesson run 12; published: Dao et al. 2022, figure 2; "
      "docs/measurements/h200_pytorch_gpt2_medium_dram.tsv";
  chart.series.push_back({"GB",
                          {},
                          {published_standard_gb, facts.value("eager_gb"), facts.value("measured_gb"),
                           facts.value("textbook_gb"), facts.value("fa1_256_gb"), published_flash_gb}});
  facts.chart(chart);
  return facts;
}

}  // namespace flashsim::course

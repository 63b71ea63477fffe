// Lesson 7: the backward pass computes S again. More FLOPs, fewer bytes; dropout drawn again from its seed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cpu_reference/oracle.h"
#include "cpu_reference/random.h"
#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "lessons/course/reversed_device.h"
#include "simulator/executors/numeric.h"
#include "simulator/report/units.h"

namespace flashsim::course {
namespace {

/// Bytes that the forward pass leaves in memory for the backward pass, beside Q, K, V and O.
double kept_bytes(const KernelTraffic& forward, std::initializer_list<Tensor> kept) {
  double bytes = 0;
  for (const Tensor x : kept) bytes += double(forward.of(x).written.bytes);
  return bytes;
}

/// What must come from HBM or go there at least: every tensor of a kernel once in each direction.
double once_bytes(const std::vector<KernelTraffic>& kernels, const Problem& p, const Tiling& t) {
  double bytes = 0;
  for (const KernelTraffic& k : kernels)
    for (int i = 0; i < tensor_count; ++i) {
      const auto x = static_cast<Tensor>(i);
      const double size =
          double(p.batch) * heads_of(x, p) * rows_of(x, p, t) * cols_of(x, p) * bytes_in_hbm(x, p);
      const TensorTraffic& moved = k.of(x);
      if (moved.read.bytes > 0) bytes += size;
      if (moved.written.bytes > 0 || moved.reduced.bytes > 0) bytes += size;
    }
  return bytes;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

struct Inputs {
  std::vector<double> q, k, v, d_o;
};
Inputs inputs_of(const Problem& p, std::uint64_t seed) {
  const auto n = static_cast<std::size_t>(p.seqlen_q) * static_cast<std::size_t>(p.head_dim);
  const auto make = [&](std::uint32_t id) { return random_tensor(Distribution::normal, seed, id, n); };
  return {make(tensor_id::q), make(tensor_id::k), make(tensor_id::v), make(tensor_id::d_o)};
}

/// Gradients after a forward pass with p's dropout mask and a backward pass with that of `again`, in fp64.
BackwardResult gradients_again(const Problem& p, const Problem& again, const Tiling& t, const Inputs& x) {
  const ForwardResult forward = run_forward(program_of(fa2_forward, p, t), p, t, x.q, x.k, x.v);
  Memory<double> memory(again, t);
  for (const auto& [tensor, values] : {std::pair{Tensor::Q, &x.q},
                                       {Tensor::K, &x.k},
                                       {Tensor::V, &x.v},
                                       {Tensor::dO, &x.d_o},
                                       {Tensor::O, &forward.o},
                                       {Tensor::LSE, &forward.lse}})
    memory.set(tensor, values->data());
  Numeric<double> numeric(again, memory);
  program_of(fa2_backward, again, t)(numeric, Heads::all);
  return {memory.get(Tensor::dQ), memory.get(Tensor::dK), memory.get(Tensor::dV)};
}

void dropout(Facts& facts, const Settings& s) {
  Problem p = heads_of_length(1, 192, 32);
  p.dtype = Dtype::fp64;
  p.dropout_p = 0.1F;
  p.dropout_seed = 1 + s.seed;
  const Inputs x = inputs_of(p, s.seed);
  const BackwardResult truth = [&] {
    const TensorGradients g = oracle_backward(p, x.q, x.k, x.v, x.d_o);
    return BackwardResult{g.dq, g.dk, g.dv};
  }();
  Table t{{"<backward pass", "error of dQ", "error of dV"}, {}};
  const auto add = [&](const std::string& name, const BackwardResult& g) {
    t.rows.push_back({name, fmt::format("{:.1e}", largest_difference(g.dq, truth.dq)),
                      fmt::format("{:.1e}", largest_difference(g.dv, truth.dv))});
  };
  for (const int block : {16, 64})
    add(fmt::format("same seed, blocks of {}", block), gradients_again(p, p, square(p, block), x));
  Problem other = p;
  other.dropout_seed += 1;
  add("another seed", gradients_again(p, other, square(p, 64), x));
  Problem none = p;
  none.dropout_p = 0;
  add("no dropout", gradients_again(p, none, square(p, 64), x));
  facts.table("dropout", t);
  facts.number("dropped_percent", 100 * double{p.dropout_p}, "{:.0f}");
}

void order(Facts& facts, const Settings& s) {
  Problem p = heads_of_length(1, 256, 64);
  p.dtype = Dtype::fp32;
  const Tiling t = square(p, 32);
  const Inputs x = inputs_of(p, s.seed);
  const BackwardResult forwards =
      run_backward(program_of(fa2_forward, p, t), program_of(fa2_backward, p, t), p, t, x.q, x.k, x.v, x.d_o);
  const Program reversed = [&](Executor& e, Heads heads) {
    ReversedDevice gpu(p, e, heads);
    fa2_backward(gpu, p, t);
  };
  const BackwardResult backwards =
      run_backward(program_of(fa2_forward, p, t), reversed, p, t, x.q, x.k, x.v, x.d_o);
  facts.number("order_dq", largest_difference(forwards.dq, backwards.dq), "{:.1e}");
  facts.number("order_dk", largest_difference(forwards.dk, backwards.dk), "{:.1g}");
}

}  // namespace

Facts lesson_backward(const Settings& s) {
  using enum Tensor;
  Facts facts;
  const Problem p = heads_of_length(s.heads, s.n, s.d);
  const Tiling t = square(p, s.block), w = whole(p);
  const auto run = [&](Schedule schedule, const Tiling& tiling) {
    return count_traffic(schedule, p, tiling);
  };
  const KernelTraffic standard_f = counted(standard_forward, p, w),
                      standard_b = counted(standard_backward, p, w), flash_f = counted(fa2_forward, p, t),
                      flash_b = counted(fa2_backward, p, t);
  const auto percent = [](double more, double less) { return 100 * (more / less - 1); };
  facts.answer("extra_backward", percent(double(flash_b.matmul_flops), double(standard_b.matmul_flops)), "%",
               0.05, "{:.1f}");
  facts.number("extra_both",
               percent(double(flash_f.matmul_flops + flash_b.matmul_flops),
                       double(standard_f.matmul_flops + standard_b.matmul_flops)),
               "{:.1f}");
  facts.answer("kept_ratio", kept_bytes(standard_f, {P}) / kept_bytes(flash_f, {LSE}), "times", 0.1,
               "{:.0f}");
  facts.text("kept_standard", decimal_bytes(kept_bytes(standard_f, {P})));
  facts.text("kept_flash", decimal_bytes(kept_bytes(flash_f, {LSE})));
  facts.text("kept_o", decimal_bytes(kept_bytes(flash_f, {O})));

  Table passes{{"<pass", "products", "FLOPs", "requested", "n x n", "each once"}, {}};
  const auto add = [&](const char* name, const KernelTraffic& k, double once) {
    double square_bytes = 0;
    for (int i = 0; i < tensor_count; ++i)
      if (is_score_shaped(static_cast<Tensor>(i)))
        square_bytes += double(k.tensor[static_cast<std::size_t>(i)].bytes());
    const double one = 2.0 * s.n * s.n * s.d * s.heads;
    passes.rows.push_back(
        {name, fmt::format("{:.0f}", double(k.matmul_flops) / one), flashsim::count(double(k.matmul_flops)),
         decimal_bytes(double(k.requested_bytes())), decimal_bytes(square_bytes), decimal_bytes(once)});
  };
  const double once_sf = once_bytes(run(standard_forward, w), p, w),
               once_sb = once_bytes(run(standard_backward, w), p, w),
               once_ff = once_bytes(run(fa2_forward, t), p, t),
               once_fb = once_bytes(run(fa2_backward, t), p, t);
  facts.text("once_standard", decimal_bytes(once_sf + once_sb));
  facts.text("once_flash", decimal_bytes(once_ff + once_fb));
  facts.number("once_ratio", (once_sf + once_sb) / (once_ff + once_fb), "{:.1f}");
  add("standard, forward", standard_f, once_sf);
  add("standard, backward", standard_b, once_sb);
  add("FA2, forward", flash_f, once_ff);
  add("FA2, backward", flash_b, once_fb);
  facts.table("passes", passes);
  facts.text("dq_reduced", decimal_bytes(double(flash_b.of(dQ_sum).reduced.bytes)));
  dropout(facts, s);
  order(facts, s);

  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.id = "backward";
  chart.title = fmt::format("Each tensor of a kernel once: {} heads, n {}, d {}", s.heads, s.n, s.d);
  chart.x_label = "pass";
  chart.y_label = "GB";
  chart.categories = {"forward", "backward"};
  chart.source =
      fmt::format("flashsim lesson run 7 --n {} --d {} --heads {} --block {}", s.n, s.d, s.heads, s.block);
  chart.series.push_back({"standard", {}, {once_sf / 1e9, once_sb / 1e9}});
  chart.series.push_back({"FA2", {}, {once_ff / 1e9, once_fb / 1e9}});
  facts.chart(chart);
  return facts;
}

}  // namespace flashsim::course

#include "simulator/cli/check_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "cpu_reference/random.h"
#include "gpu_kernels/check/chosen_order.h"

namespace flashsim::cli {

void CheckRun::execute(const Truth& truth, ForwardResult* forward, BackwardResult* gradients) {
  const Roundings roundings = candidate.user ? roundings_of_any(problem, tiling)
                                             : roundings_of(*candidate.algorithm, problem, tiling);
  const Program program = candidate.program(false, problem, tiling);
  results = backward ? check_backward(program, candidate.program(true, problem, tiling), roundings, problem,
                                      tiling, truth, gradients)
                     : check_forward(program, roundings, problem, tiling, truth, forward);
}

bool CheckRun::ok() const {
  return std::all_of(results.begin(), results.end(), [](const Comparison& c) { return c.ok(); });
}

const Comparison& CheckRun::worst() const {
  return *std::max_element(results.begin(), results.end(),
                           [](const Comparison& a, const Comparison& b) { return a.share() < b.share(); });
}

CheckRun random_case(const Algorithm& algorithm, bool backward, Dtype dtype, std::uint64_t seed,
                     std::uint64_t index) {
  // A stream of its own, far from those of the tensors.
  constexpr std::uint32_t stream = 1000;
  std::uint64_t drawn = index * 64;
  const auto below = [&](int n) {
    const double x = (random_value(Distribution::uniform, seed, stream, drawn++) + 1) / 2;
    return std::min(static_cast<int>(x * n), n - 1);
  };
  const auto up_to = [&](int n) { return 1 + below(n); };
  CheckRun run;
  run.candidate = {&algorithm, nullptr};
  run.backward = backward;
  run.seed = seed + index;
  Problem& p = run.problem;
  p.dtype = dtype;
  p.batch = up_to(2);
  p.heads_kv = up_to(2);
  p.heads_q = p.heads_kv * up_to(3);
  p.seqlen_q = up_to(90);
  p.seqlen_k = up_to(90);
  p.head_dim = up_to(40);
  p.causal = below(2) == 1;
  if (below(2) == 1) p.window_left = below(40);
  if (!p.causal && below(2) == 1) p.window_right = below(40);
  if (below(2) == 1) p.dropout_p = 0.25F;
  p.dropout_seed = run.seed;
  if (!algorithm.fault(p).empty()) p.dropout_p = 0;
  Tiling& t = run.tiling;
  t = algorithm.tiling(p);
  t.block_q = up_to(std::min(p.seqlen_q, 40));
  t.block_k = up_to(std::min(p.seqlen_k, 40));
  t.stages = up_to(3);
  t.num_splits = up_to(5);
  if (algorithm.name == "fa1" && dtype == Dtype::fp16 && below(2) == 1) t.temporaries = Dtype::fp16;
  if (below(3) == 0) run.stretch = 20;
  return run;
}

std::string mask_of(const Problem& p) {
  std::string mask = p.causal ? "causal" : "";
  if (p.window_left >= 0 || p.window_right >= 0)
    mask += fmt::format("{}window {},{}", mask.empty() ? "" : " ", p.window_left, p.window_right);
  return mask.empty() ? "none" : mask;
}

std::string place_of(const Comparison& c, const Problem& p) {
  const bool keys = is_key_side(c.result);
  const std::int64_t heads = keys ? p.heads_kv : p.heads_q, rows = keys ? p.seqlen_k : p.seqlen_q;
  const std::int64_t cols = c.result == Tensor::LSE ? 1 : p.head_dim;
  const std::int64_t row = c.at / cols, head = row / rows;
  const std::string column = cols > 1 ? fmt::format(", col {}", c.at % cols) : "";
  return fmt::format("(batch {}, head {}, row {}{})", head / heads, head % heads, row % rows, column);
}

std::string command_of(const CheckRun& run, const GivenFiles& given) {
  const Problem& p = run.problem;
  const Tiling& t = run.tiling;
  std::string s =
      fmt::format("flashsim check --{} {} --pass {}", run.candidate.user ? "schedule" : "algorithm",
                  run.candidate.user ? given.schedule : run.name(), run.pass());
  s += given.tensors.empty()
           ? fmt::format(" --seqlen-q {} --seqlen-k {} --d {} --batch {} --heads {} --heads-kv {}",
                         p.seqlen_q, p.seqlen_k, p.head_dim, p.batch, p.heads_q, p.heads_kv)
           : " " + given.tensors;
  s += fmt::format(" --dtype {} --block-q {} --block-k {}", name_of(p.dtype), t.block_q, t.block_k);
  if (p.causal) s += " --causal";
  if (p.window_left >= 0 || p.window_right >= 0)
    s += fmt::format(" --window {},{}", p.window_left, p.window_right);
  if (!p.masked()) s += " --no-mask";
  if (p.dropout_p > 0) s += fmt::format(" --dropout {}", p.dropout_p);
  if (p.softmax_scale > 0) s += fmt::format(" --scale {}", p.softmax_scale);
  const Tiling own = run.candidate.algorithm->tiling(p);
  if (t.stages != own.stages) s += fmt::format(" --stages {}", t.stages);
  if (t.warps != own.warps) s += fmt::format(" --warps {}", t.warps);
  if (t.num_splits != own.num_splits) s += fmt::format(" --splits {}", t.num_splits);
  if (t.order != own.order) s += fmt::format(" --order {}", gpu::name_of(t.order));
  if (t.temporaries != own.temporaries) s += fmt::format(" --temporaries {}", name_of(t.temporaries));
  if (!t.fp8_block_scales) s += " --per-tensor-scales";
  if (!t.fp8_incoherent_processing) s += " --no-incoherent";
  if (run.stretch != 1 && given.tensors.empty()) s += fmt::format(" --stretch {}", run.stretch);
  return s + fmt::format(" --seed {}", run.seed);
}

}  // namespace flashsim::cli

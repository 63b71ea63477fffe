// flashsim check: every schedule's numbers against the float64 oracle.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "simulator/cli/check_fp8.h"
#include "simulator/cli/check_gpu.h"
#include "simulator/cli/check_report.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/npy.h"
#include "simulator/cli/problem_options.h"
#include "simulator/cli/tensor_options.h"

namespace flashsim::cli {
namespace {

struct CheckOptions {
  ProblemOptions problem{
      {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 150, .seqlen_k = 150, .head_dim = 64}};
  TilingOptions tiling;
  TensorOptions tensors;
  GpuCheckOptions gpu;
  std::vector<std::string> algorithms;
  std::string schedule;  ///< a file of the user's
  std::vector<bool> backward{false, true};
  bool pass_given = false, no_mask = false, details = false, fp8_table = false;
  double stretch = 1;
  std::optional<int> cases;
  std::array<std::string, 5> outputs;  ///< files for O, LSE, dQ, dK, dV

  void declare(Options& options);
  bool writes() const {
    return std::any_of(outputs.begin(), outputs.end(), [](const std::string& file) { return !file.empty(); });
  }
};

void CheckOptions::declare(Options& options) {
  options.heading("What to check");
  options.value("-a,--algorithm", "NAMES", "one or more, with a comma between them (default all)",
                [this](const std::string& text) {
                  if (text == "all") return;
                  algorithms = parse_list("--algorithm", text);
                  for (const std::string& name : algorithms) algorithm_named(name);
                });
  options.text("--schedule", "FILE", schedule, "a schedule of your own, a C++ file, instead of an algorithm");
  options.value("--pass", "forward|backward|both", "which pass (default both)",
                [this](const std::string& text) {
                  pass_given = true;
                  const std::vector<std::vector<bool>> choices = {{false}, {true}, {false, true}};
                  backward = choices[parse_choice("--pass", text, {"forward", "backward", "both"})];
                });
  options.integer("--cases", cases, 1, 100000,
                  "this many random problems for each algorithm, pass and dtype instead");
  options.flag("--no-mask", no_mask, "only without a mask (default: none, causal and a window)");
  options.value("--stretch", "X", "multiply random Q by X: large logits",
                [this](const std::string& text) { stretch = parse_number("--stretch", text, 1e-6, 1e6); });
  options.flag("--details", details, "a line for every result");
  options.flag(
      "--fp8-table", fp8_table,
      "fa3 in e4m3 on inputs with outliers instead, with and without its techniques, beside the paper's "
      "table; on the GPU, too, where there is one");
  tensors.declare(options);
  gpu.declare(options);
  options.heading("Results as .npy (one algorithm, dtype, mask and block)");
  const std::array<std::pair<const char*, const char*>, 5> results = {
      {{"--out-o", "O, (batch, heads, seqlen, d)"},
       {"--out-lse", "LSE, (batch, heads, seqlen)"},
       {"--out-dq", "dQ, shaped as O"},
       {"--out-dk", "dK, (batch, heads_kv, seqlen, d)"},
       {"--out-dv", "dV, shaped as dK"}}};
  for (std::size_t i = 0; i < results.size(); ++i)
    options.text(results[i].first, "FILE", outputs[i], results[i].second);
  problem.declare(options);
  tiling.declare(options);
}

std::vector<Candidate> chosen_candidates(const CheckOptions& o) {
  std::vector<Candidate> all;
  for (const Algorithm& a : algorithms())
    if (o.algorithms.empty()
            ? o.schedule.empty()
            : std::find(o.algorithms.begin(), o.algorithms.end(), a.name) != o.algorithms.end())
      all.push_back({&a, nullptr});
  if (!o.schedule.empty()) all.push_back(user_candidate(o.schedule));
  return all;
}

/// Whether `c` is to be run on this problem; throws UsageError where it was asked for by name and cannot.
bool runs(const CheckOptions& o, const Candidate& c, bool backward, const Problem& p) {
  const bool asked = !o.algorithms.empty() || c.user;
  if (asked) require_supported(*c.algorithm, p);
  if (!c.has(backward)) {
    if (asked && o.pass_given && o.backward.size() == 1)
      throw UsageError(fmt::format("{} has no backward pass of its own; choose --pass forward", c.name()));
    return false;
  }
  return c.algorithm->fault(p).empty();
}

std::vector<Problem> masked_problems(const CheckOptions& o, const Problem& p) {
  if (o.problem.mask_given() || o.no_mask || o.tensors.given()) return {p};
  Problem causal = p, window = p;
  causal.causal = true;
  window.window_left = p.seqlen_k / 4;
  window.window_right = p.seqlen_k / 16;
  return {p, causal, window};
}

/// Square, wide and ragged blocks, unless the command line chooses.
std::vector<Tiling> tilings(const CheckOptions& o, const Algorithm& a, const Problem& p) {
  const Tiling own = o.tiling.tiling(a, p);
  if (o.tiling.blocks_given()) return {own};
  std::vector<Tiling> all;
  for (const auto& [block_q, block_k] : {std::pair{64, 64}, {32, 80}, {48, 16}}) {
    Tiling t = own;
    t.block_q = std::min(block_q, a.name == "decoding" ? p.seqlen_q * p.group() : p.seqlen_q);
    t.block_k = std::min(block_k, p.seqlen_k);
    if (std::find(all.begin(), all.end(), t) == all.end()) all.push_back(t);
  }
  return all;
}

void require_feasible(const Problem& p) {
  const double work = 10.0 * p.batch * p.heads_q * double(p.seqlen_q) * p.seqlen_k * p.head_dim;
  if (work > 1e13)
    throw UsageError(fmt::format(
        "{} would take hours on a processor; choose a smaller n (traffic counts large ones)", describe(p)));
}

class Checker {
 public:
  Checker(const CheckOptions& o, Output& out) : o_(o), out_(out) {}

  ExitCode run() {
    if (o_.cases) {
      random_runs();
    } else {
      chosen_runs();
    }
    if (runs_.empty()) throw UsageError("nothing to check: no algorithm computes this problem in this pass");
    const GivenFiles given{o_.schedule, o_.tensors.command_line()};
    if (out_.json()) {
      print_checks_json(runs_, given, out_);
    } else {
      print_checks(runs_, title_, o_.details || runs_.size() <= 4, given, out_);
    }
    return std::all_of(runs_.begin(), runs_.end(), [](const CheckRun& r) { return r.ok(); })
               ? ExitCode::ok
               : ExitCode::check_failed;
  }

 private:
  void chosen_runs() {
    Problem p = o_.problem.problem();
    const Tensors x = o_.tensors.load(p, o_.problem.seed(), o_.problem.lengths_given(), out_);
    require_feasible(p);
    if (p.dtype == Dtype::e4m3)
      throw UsageError(
          "in e4m3 the derived worst case is wider than the values, so a check could not fail; choose fp64, "
          "fp32, fp16 or bf16, or see its mean error beside the published one: check --fp8-table");
    std::vector<Dtype> dtypes = {Dtype::fp64, Dtype::fp32, Dtype::fp16, Dtype::bf16};
    if (o_.problem.dtype_given() || o_.tensors.given()) dtypes = {p.dtype};
    title_ = fmt::format("batch {}, heads {}/{}, seqlen {} x {}, d {}, seed {}", p.batch, p.heads_q,
                         p.heads_kv, p.seqlen_q, p.seqlen_k, p.head_dim, o_.problem.seed());
    std::vector<CheckRun> planned;
    for (const Candidate& c : chosen_candidates(o_))
      for (const bool backward : o_.backward)
        for (const Dtype dtype : dtypes) {
          Problem typed = p;
          typed.dtype = dtype;
          for (const Problem& masked : masked_problems(o_, typed))
            if (runs(o_, c, backward, masked))
              for (const Tiling& t : tilings(o_, *c.algorithm, masked))
                planned.push_back({c, backward, masked, t, o_.problem.seed(), o_.stretch, {}});
        }
    if (o_.writes()) require_one(planned);
    for (CheckRun& run : planned) {
      const Truth& truth = truth_for(run.problem, x);
      execute(run, truth);
    }
  }

  void random_runs() {
    if (o_.problem.problem().dtype == Dtype::e4m3)
      throw UsageError("--cases checks fp64, fp32, fp16 and bf16");
    if (o_.tensors.given() || o_.writes() || o_.tiling.blocks_given() || o_.problem.lengths_given())
      throw UsageError("--cases draws shapes, blocks and inputs; leave out lengths, blocks and files");
    std::vector<Dtype> dtypes = {Dtype::fp64, Dtype::fp32, Dtype::fp16, Dtype::bf16};
    if (o_.problem.dtype_given()) dtypes = {o_.problem.problem().dtype};
    title_ = fmt::format("{} random cases each, seed {}", *o_.cases, o_.problem.seed());
    for (const Candidate& c : chosen_candidates(o_))
      for (const bool backward : o_.backward)
        for (const Dtype dtype : dtypes)
          for (int i = 0; i < *o_.cases; ++i) {
            CheckRun run =
                random_case(*c.algorithm, backward, dtype, o_.problem.seed(), static_cast<std::uint64_t>(i));
            run.candidate = c;
            if (!runs(o_, c, backward, run.problem)) break;
            Problem p = run.problem;
            const Truth truth = make_truth(p, TensorOptions().load(p, run.seed, false, out_), run.stretch);
            execute(run, truth);
          }
  }

  static Truth make_truth(const Problem& p, const Tensors& x, double stretch) {
    std::vector<double> q = x.q;
    for (double& e : q) e *= stretch;
    return truth_of(p, std::move(q), x.k, x.v, x.d_o);
  }

  /// The same inputs and problem serve all algorithms.
  const Truth& truth_for(const Problem& p, const Tensors& x) {
    for (const auto& [problem, truth] : truths_)
      if (problem == p) return *truth;
    truths_.emplace_back(p, std::make_unique<Truth>(make_truth(p, x, o_.tensors.given() ? 1 : o_.stretch)));
    return *truths_.back().second;
  }

  void execute(CheckRun& run, const Truth& truth) {
    const Problem& p = run.problem;
    const bool keep = o_.writes();
    if (run.backward) {
      BackwardResult r;
      run.execute(truth, nullptr, keep ? &r : nullptr);
      write(2, {p.batch, p.heads_q, p.seqlen_q, p.head_dim}, r.dq, p);
      write(3, {p.batch, p.heads_kv, p.seqlen_k, p.head_dim}, r.dk, p);
      write(4, {p.batch, p.heads_kv, p.seqlen_k, p.head_dim}, r.dv, p);
    } else {
      ForwardResult r;
      run.execute(truth, keep ? &r : nullptr, nullptr);
      write(0, {p.batch, p.heads_q, p.seqlen_q, p.head_dim}, r.o, p);
      write(1, {p.batch, p.heads_q, p.seqlen_q}, r.lse, p);
    }
    runs_.push_back(run);
  }

  void write(std::size_t i, const std::vector<int>& shape, const std::vector<double>& values,
             const Problem& p) const {
    if (o_.outputs[i].empty()) return;
    if (values.empty())
      throw UsageError("this algorithm stores no LSE; leave out --out-lse, or choose fa2, fa3 or chunked");
    // bf16 has no dtype in NumPy, and e4m3 gives its output in fp16; statistics are wide.
    const Dtype dtype = i == 1                   ? accumulator(p)
                        : p.dtype == Dtype::bf16 ? Dtype::fp32
                        : p.dtype == Dtype::e4m3 ? Dtype::fp16
                                                 : p.dtype;
    write_npy(o_.outputs[i], shape, values, dtype);
  }

  void require_one(const std::vector<CheckRun>& planned) const {
    const auto passes = [&](bool backward) {
      return std::count_if(planned.begin(), planned.end(),
                           [&](const CheckRun& r) { return r.backward == backward; });
    };
    const bool forward = !o_.outputs[0].empty() || !o_.outputs[1].empty();
    const bool backward = !o_.outputs[2].empty() || !o_.outputs[3].empty() || !o_.outputs[4].empty();
    if ((forward && passes(false) != 1) || (backward && passes(true) != 1))
      throw UsageError(fmt::format(
          "results can be written for one run of a pass, but this makes {} forward and {} backward; "
          "name one --algorithm, --dtype and --block, and --causal, --window or --no-mask",
          passes(false), passes(true)));
  }

  const CheckOptions& o_;
  Output& out_;
  std::string title_;
  std::vector<CheckRun> runs_;
  std::vector<std::pair<Problem, std::unique_ptr<Truth>>> truths_;
};

constexpr const char* example_of_real_input =
    "flashsim check --q lessons/data/minilm_q.npy --k lessons/data/minilm_k.npy --v "
    "lessons/data/minilm_v.npy";

}  // namespace

Command check_command() {
  return {"check",
          "compare every algorithm's numbers with exact attention in float64",
          {"flashsim check", "flashsim check --algorithm fa2 --dtype fp16 --causal --block 32",
           "flashsim check --cases 20 --seed 7", example_of_real_input, "flashsim check --fp8-table"},
          "Tiled schedules run number by number, rounding where hardware rounds, and are held against naive "
          "attention. "
          "Tolerances are derived from the dtype, the lengths and the largest logit "
          "(cpu_reference/tolerance.h). Exit code "
          "1 if any element is outside, with a command that repeats the case.",
          [](Options& options) -> Run {
            auto o = std::make_shared<CheckOptions>();
            o->declare(options);
            return [o](Output& out) {
              if (o->fp8_table) return check_fp8_table(o->problem.seed(), out);
              if (!o->gpu.on) {
                o->gpu.refuse_without_gpu();
                return Checker(*o, out).run();
              }
              gpu::CheckPlan plan = o->gpu.plan;
              plan.random_cases = o->cases.value_or(plan.random_cases);
              plan.seed = o->problem.seed();
              plan.order.order = o->tiling.order();
              return check_on_gpu(plan, out);
            };
          }};
}

}  // namespace flashsim::cli

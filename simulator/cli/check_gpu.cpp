#include "simulator/cli/check_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulator/cli/gpu_record.h"
#include "simulator/cli/order_options.h"
#include "simulator/cli/table.h"

namespace flashsim::cli {
namespace {

/// "(batch 1, head 2, row 3, column 4)" of element `index` of a result tensor.
std::string position(const Problem& p, const gpu::Comparison& c) {
  const bool keys = c.tensor == "dK" || c.tensor == "dV";
  const auto cols = static_cast<std::size_t>(c.tensor == "LSE" ? 1
                                             : c.tensor == "P" ? p.seqlen_k
                                                               : p.head_dim);
  const auto rows = static_cast<std::size_t>(keys ? p.seqlen_k : p.seqlen_q);
  const auto heads = static_cast<std::size_t>(keys ? p.heads_kv : p.heads_q);
  const std::size_t row = c.index / cols, head = row / rows;
  return fmt::format("batch {}, head {}, row {}, column {}", head / heads, head % heads, row % rows,
                     c.index % cols);
}

std::string repeat_command(const gpu::CheckPlan& plan, int number, const std::string& label) {
  const bool random = number >= static_cast<int>(gpu::adversarial_cases().size());
  return fmt::format("flashsim check --gpu --case {} --kernel {}{}{}", number,
                     label.substr(0, label.find(',')), command_line_of(plan.order),
                     random ? fmt::format(" --seed {}", plan.seed) : "");
}

/// Why no wanted kernel takes the order that was asked for; empty where one does.
std::string fault_of_order(const gpu::CheckPlan& plan) {
  Problem p{.heads_q = 4, .heads_kv = 4, .seqlen_q = 256, .seqlen_k = 256, .head_dim = 128, .causal = true};
  std::string fault;
  for (const gpu::Kernel& kernel : gpu::kernels()) {
    if (!plan.order.given() || !gpu::matches(plan.kernel, kernel)) continue;
    fault = kernel.fault(p, plan.order.of(kernel.tiling(p, gpu::Pass::forward)), gpu::Pass::forward);
    if (fault.empty()) return {};
  }
  return fault;
}

/// The worst ratio of every tensor of a kernel, over all cases.
struct Summary {
  std::string label;
  int cases = 0, failures = 0;
  std::array<double, 6> worst{-1, -1, -1, -1, -1, -1};
};
constexpr std::array<const char*, 6> tensors = {"O", "LSE", "dQ", "dK", "dV", "P"};

class Report {
 public:
  Report(const gpu::CheckPlan& plan, Output& out) : plan_(plan), out_(out) {
    if (out.json()) document_ = measurement_document("check --gpu");
  }

  void add(const gpu::CaseReport& report) {
    ++cases_;
    for (const gpu::KernelReport& kernel : report.kernels) {
      Summary& s = summary(kernel.label);
      ++s.cases;
      if (!kernel.passed()) ++s.failures, failure(report, kernel);
      for (const gpu::Comparison& c : kernel.comparisons) {
        ++comparisons_;
        const auto at = std::find(tensors.begin(), tensors.end(), c.tensor) - tensors.begin();
        double& worst = s.worst[static_cast<std::size_t>(at)];
        if (!(c.worst <= worst)) worst = c.worst;
      }
    }
    if (cases_ % 100 == 0) out_.note(fmt::format("{} cases, {} comparisons", cases_, comparisons_));
  }

  ExitCode finish() {
    if (summaries_.empty()) throw UsageError("nothing was checked: no kernel computes these cases");
    const bool ok =
        std::all_of(summaries_.begin(), summaries_.end(), [](const Summary& s) { return s.failures == 0; });
    out_.json() ? print_document(ok) : print_text(ok);
    return ok ? ExitCode::ok : ExitCode::check_failed;
  }

 private:
  Summary& summary(const std::string& label) {
    for (Summary& s : summaries_)
      if (s.label == label) return s;
    summaries_.push_back({label});
    return summaries_.back();
  }

  void failure(const gpu::CaseReport& report, const gpu::KernelReport& kernel) {
    const std::string command = repeat_command(plan_, report.number, kernel.label);
    const auto show = [&](const std::string& text, const Json& json) {
      if (out_.json())
        document_["failures"].push_back(json);
      else
        out_.print(fmt::format("{} {}: {}\n    {}\n    {}\n", out_.style().red("FAILED"), kernel.label, text,
                               gpu::describe(report.c), command));
    };
    const Json where = {{"kernel", kernel.label}, {"case", gpu::describe(report.c)}, {"command", command}};
    if (!kernel.error.empty()) {
      Json json = where;
      json["error"] = kernel.error;
      show(kernel.error, json);
    }
    for (const gpu::Comparison& c : kernel.comparisons) {
      if (c.passed()) continue;
      Json json = where;
      json.update(Json{{"tensor", c.tensor},
                       {"index", c.index},
                       {"got", fmt::format("{}", c.got)},
                       {"want", fmt::format("{}", c.want)},
                       {"tolerance", c.tolerance}});
      show(fmt::format("{} at {}: got {:.6g}, expected {:.6g} +- {:.3g}", c.tensor,
                       position(report.c.problem, c), c.got, c.want, c.tolerance),
           json);
    }
  }

  void print_text(bool ok) {
    std::vector<Column> columns = {{"kernel", Align::left}, {"cases"}, {"failed"}};
    for (const char* tensor : tensors) columns.push_back({tensor});
    Table table(columns);
    for (const Summary& s : summaries_) {
      std::vector<std::string> cells = {s.label, std::to_string(s.cases), std::to_string(s.failures)};
      for (const double worst : s.worst) cells.push_back(worst < 0 ? "" : fmt::format("{:.3f}", worst));
      table.row(cells);
    }
    out_.print(fmt::format("Worst error / tolerance against float64, {} cases on {}\n\n", cases_,
                           gpu::device_info().name));
    out_.print(table.text(out_.style(), out_.width()));
    out_.print(fmt::format("\n{} comparisons of whole tensors: {}\n", comparisons_,
                           ok ? out_.style().green("all within tolerance") : out_.style().red("FAILED")));
  }

  void print_document(bool ok) {
    document_["seed"] = plan_.seed;
    document_["cases"] = cases_;
    document_["comparisons"] = comparisons_;
    document_["passed"] = ok;
    if (!document_.contains("failures")) document_["failures"] = Json::array();
    for (const Summary& s : summaries_) {
      Json worst = Json::object();
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (s.worst[i] >= 0) worst[tensors[i]] = s.worst[i];
      document_["kernels"].push_back({{"kernel", s.label},
                                      {"cases", s.cases},
                                      {"failed", s.failures},
                                      {"worst_error_over_tolerance", worst}});
    }
    print_json(out_, document_);
  }

  const gpu::CheckPlan& plan_;
  Output& out_;
  Json document_;
  int cases_ = 0;
  std::int64_t comparisons_ = 0;
  std::vector<Summary> summaries_;
};

}  // namespace

void GpuCheckOptions::declare(Options& options) {
  options.heading("On the GPU");
  options.flag("--gpu", on,
               "check the CUDA kernels instead, on a fixed list of unkind problems and --cases random ones "
               "(default 100, from --seed)");
  options.text("--kernel", "NAME", plan.kernel, "only this kernel (flashsim kernels lists them)");
  declare_heads_together(options, plan.order);
  options.value("--case", "N,...", "only the cases of these numbers, as failures name them",
                [this](const std::string& text) {
                  for (const std::string& number : parse_list("--case", text))
                    plan.only.push_back(static_cast<int>(parse_integer("--case", number, 0, 1000000)));
                });
}

void GpuCheckOptions::refuse_without_gpu() const {
  const char* const given = !plan.kernel.empty()        ? "--kernel"
                            : !plan.only.empty()        ? "--case"
                            : plan.order.heads_together ? "--heads-together"
                                                        : nullptr;
  if (given != nullptr)
    throw UsageError(
        fmt::format("{} is about CUDA kernels; give --gpu, too (schedules: --algorithm)", given));
}

ExitCode check_on_gpu(const gpu::CheckPlan& plan, Output& out) {
  require_gpu("check --gpu");
  const auto& all = gpu::kernels();
  if (std::none_of(all.begin(), all.end(),
                   [&](const gpu::Kernel& k) { return gpu::matches(plan.kernel, k); }))
    throw UsageError(fmt::format("there is no kernel '{}'; flashsim kernels lists them", plan.kernel));
  if (const std::string fault = fault_of_order(plan); !fault.empty())
    throw UsageError(fmt::format("no kernel can be checked with{}: {}", command_line_of(plan.order), fault));
  Report report(plan, out);
  gpu::run_checks(plan, [&](const gpu::CaseReport& c) { report.add(c); });
  return report.finish();
}

}  // namespace flashsim::cli

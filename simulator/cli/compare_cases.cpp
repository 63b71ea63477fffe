#include "simulator/cli/compare_cases.h"

#include "simulator/cli/errors.h"
#include "simulator/cli/order_options.h"
#include "simulator/compare/suite.h"

namespace flashsim::cli {
namespace {

Problem default_problem() {
  Problem p;
  p.batch = 4;
  p.heads_q = p.heads_kv = 16;
  p.seqlen_q = p.seqlen_k = 1024;
  p.head_dim = 64;
  return p;
}

/// "fa3/no-pingpong" is a variant of fa3.
KernelCase named(const std::string& name, bool backward, const Problem& p) {
  const std::size_t slash = name.find('/');
  return {name.substr(0, slash), slash == std::string::npos ? "" : name.substr(slash + 1), backward, p};
}

/// Every kernel on the problem of the row in FlashAttention's Figure 2, with a batch of 4, and decoding on
/// the same cache of keys.
std::vector<KernelCase> ladder() {
  std::vector<KernelCase> cases;
  const Problem p = default_problem();
  for (const char* kernel : {"standard", "fa1", "fa2", "fa3"}) cases.push_back({kernel, "", false, p});
  for (const char* kernel : {"standard", "fa1", "fa2"}) cases.push_back({kernel, "", true, p});
  Problem one_query = p;
  one_query.seqlen_q = 1;
  one_query.seqlen_k = 16384;
  cases.push_back({"decoding", "", false, one_query});
  return cases;
}

}  // namespace

CaseOptions::CaseOptions() : problem_(default_problem()) {}

void CaseOptions::declare(Options& options) {
  options.heading("What is measured");
  options.text("--kernel", "NAME", kernel_,
               "standard, softmax, fa1, fa2, fa3, decoding, one of their variants, or all");
  options.flag("--backward", backward_, "the backward pass");
  options.value("--suite", "NAME", "a committed list of cases: bytes-v1", [this](const std::string& text) {
    if (text != "bytes-v1")
      throw UsageError("--suite: there is no suite \"" + text + "\"; expected bytes-v1");
    suite_ = text;
  });
  options.value("--preset", "NAME", "ladder: every kernel on one problem", [this](const std::string& text) {
    if (text != "ladder") throw UsageError("--preset: there is no preset \"" + text + "\"; expected ladder");
    preset_ = text;
  });
  cli::declare(options, order_);
  options.heading("Problem");
  problem_.declare(options);
}

bool CaseOptions::take(const KernelCase& c) const {
  if (backward_ && !c.backward) return false;
  const KernelCase wanted = named(kernel_, false, {});
  const bool any_variant = wanted.kernel == "softmax" && wanted.variant.empty();  // it has no plain one
  return kernel_ == "all" || (c.kernel == wanted.kernel && (any_variant || c.variant == wanted.variant));
}

std::vector<KernelCase> CaseOptions::cases() const {
  std::vector<KernelCase> chosen;
  if (!suite_.empty() || !preset_.empty()) {
    std::vector<KernelCase> listed;
    if (!suite_.empty()) listed = bytes_suite_v1();
    if (!preset_.empty())
      for (const KernelCase& c : ladder()) listed.push_back(c);
    for (const KernelCase& c : listed)
      if (take(c)) chosen.push_back(c);
    if (chosen.empty())
      throw UsageError("--kernel " + kernel_ +
                       " is not part of what --suite and --preset list; expected standard, "
                       "softmax, fa1, fa2, fa3, decoding or all");
    return chosen;
  }
  const Problem p = problem_.problem();
  if (kernel_ == "softmax") return {{"softmax", "safe", backward_, p}, {"softmax", "online", backward_, p}};
  if (kernel_ != "all") return {named(kernel_, backward_, p)};
  for (const char* kernel : {"standard", "fa1", "fa2", "fa3"})
    if (!backward_ || kernel != std::string_view("fa3")) chosen.push_back({kernel, "", backward_, p});
  return chosen;
}

}  // namespace flashsim::cli

// flashsim kernels: what is compiled for the GPU, and what each kernel takes, found out by asking it.
#include <fmt/format.h>

#include <algorithm>

#include "gpu_kernels/check/kernel_check.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/gpu_record.h"
#include "simulator/cli/table.h"

namespace flashsim::cli {
namespace {

using gpu::Kernel;
using gpu::Pass;

bool takes(const Kernel& kernel, const Problem& p, Pass pass = Pass::forward) {
  return kernel.fault(p, kernel.tiling(p, pass), pass).empty();
}

/// A problem that every kernel of a dtype should take, to be varied one property at a time.
Problem plain(Dtype dtype) {
  Problem p;
  p.heads_q = p.heads_kv = 4;
  p.seqlen_q = p.seqlen_k = 256;
  p.head_dim = 128;
  p.dtype = dtype;
  return p;
}

std::vector<Dtype> dtypes_of(const Kernel& kernel) {
  std::vector<Dtype> all;
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp16, Dtype::bf16, Dtype::e4m3})
    if (takes(kernel, plain(dtype))) all.push_back(dtype);
  return all;
}

struct Support {
  std::vector<Dtype> dtypes;
  int smallest_dim = 0, largest_dim = 0;  ///< multiples of 8
  bool backward = false, causal = false, window = false, gqa = false, dropout = false, order = false;
};

Support support_of(const Kernel& kernel) {
  Support s;
  s.dtypes = dtypes_of(kernel);
  if (s.dtypes.empty()) return s;
  const Problem p = plain(s.dtypes.front());
  const auto with = [&](auto change, Pass pass = Pass::forward) {
    Problem q = p;
    change(q);
    return takes(kernel, q, pass);
  };
  for (int d = 8; d <= 512; d += 8)
    if (with([d](Problem& q) { q.head_dim = d; })) {
      if (s.smallest_dim == 0) s.smallest_dim = d;
      s.largest_dim = d;
    }
  s.backward = takes(kernel, p, Pass::backward);
  s.causal = with([](Problem& q) { q.causal = true; });
  s.window = with([](Problem& q) { q.window_left = 64; });
  s.gqa = with([](Problem& q) { q.heads_kv = 1; });
  s.dropout = with([](Problem& q) { q.dropout_p = 0.1F; });
  Problem causal = p;
  causal.causal = true;
  Tiling t = kernel.tiling(causal, Pass::forward);
  t.order = t.order == BlockOrder::first_to_last ? BlockOrder::last_to_first : BlockOrder::first_to_last;
  s.order = kernel.fault(causal, t, Pass::forward).empty();
  return s;
}

std::string names(const std::vector<Dtype>& dtypes) {
  std::vector<std::string> all;
  for (const Dtype dtype : dtypes) all.emplace_back(name_of(dtype));
  return fmt::format("{}", fmt::join(all, " "));
}

std::vector<std::string> features_of(const Support& s) {
  std::vector<std::string> all;
  if (s.causal) all.emplace_back("causal");
  if (s.window) all.emplace_back("window");
  if (s.gqa) all.emplace_back("GQA");
  if (s.dropout) all.emplace_back("dropout");
  if (s.backward) all.emplace_back("backward");
  if (s.order) all.emplace_back("order");
  return all;
}

void print_json_list(Output& out) {
  Json document = json_document("kernels");
  document["kernels"] = Json::array();
  for (const Kernel& kernel : gpu::kernels()) {
    const Support s = support_of(kernel);
    Json dtypes = Json::array();
    for (const Dtype dtype : s.dtypes) dtypes.push_back(name_of(dtype));
    document["kernels"].push_back({{"name", kernel.name},
                                   {"variant", kernel.variant},
                                   {"idea", kernel.idea},
                                   {"dtypes", dtypes},
                                   {"head_dim_smallest", s.smallest_dim},
                                   {"head_dim_largest", s.largest_dim},
                                   {"features", features_of(s)}});
  }
  document["gpu"] = gpu::why_no_gpu();
  print_json(out, document);
}

void print_list(Output& out) {
  for (const Kernel& kernel : gpu::kernels()) {
    const Support s = support_of(kernel);
    const std::string what =
        s.dtypes.empty()
            ? "nothing on this GPU: " + kernel.fault(plain(Dtype::fp16),
                                                     kernel.tiling(plain(Dtype::fp16), Pass::forward),
                                                     Pass::forward)
            : fmt::format("{}, head_dim {} to {}{}{}", names(s.dtypes), s.smallest_dim, s.largest_dim,
                          features_of(s).empty() ? "" : ", ", fmt::join(features_of(s), ", "));
    const int width = std::min(out.width(), 110) - 24;
    out.print(out.style().bold(fmt::format("{:<22}", gpu::full_name(kernel))) + "  " +
              indented(wrapped(kernel.idea, width) + "\n" + out.style().dim(wrapped(what, width)), 24) +
              "\n");
  }
}

}  // namespace

Command kernels_command() {
  return {
      "kernels",
      "list the CUDA kernels of this build and what each takes",
      {"flashsim kernels", "flashsim kernels --json"},
      "Names are what --kernel takes. What a kernel supports is asked of the kernel, not written down here. "
      "Exit code 4 where no GPU can run them.",
      [](Options&) -> Run {
        return [](Output& out) {
          if (gpu::kernels().empty()) require_gpu("kernels");
          out.json() ? print_json_list(out) : print_list(out);
          const std::string reason = gpu::why_no_gpu();
          if (!reason.empty()) out.note("these kernels are compiled, but cannot run here: " + reason);
          return reason.empty() ? ExitCode::ok : ExitCode::no_gpu;
        };
      }};
}

}  // namespace flashsim::cli

// Every kernel on every unkind case and some random ones, and results that must repeat bit for bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "gpu_kernels/check/check_run.h"

using namespace flashsim;
using namespace flashsim::gpu;

namespace {

struct Gradients {
  std::vector<unsigned char> dq, dk, dv;
  friend bool operator==(const Gradients&, const Gradients&) = default;
};

/// Forward and backward on poisoned outputs; fa2 in its fixed order.
Gradients gradients_of(const Kernel& kernel, const Problem& p, const DeviceInputs& inputs) {
  const auto size = [&p](int heads, int rows, int cols, std::size_t each) {
    return static_cast<std::size_t>(elements(p, heads, rows, cols)) * each;
  };
  const std::size_t q = size(p.heads_q, p.seqlen_q, p.head_dim, 2),
                    k = size(p.heads_kv, p.seqlen_k, p.head_dim, 2);
  DeviceBuffer o(q), dq(q), dk(k), dv(k), lse(size(p.heads_q, p.seqlen_q, 1, 4)), l(lse.bytes()),
      m(lse.bytes());
  Tensors x = inputs.tensors();
  x.o = o.data(), x.dq = dq.data(), x.dk = dk.data(), x.dv = dv.data();
  x.lse = static_cast<float*>(lse.data()), x.l = static_cast<float*>(l.data()),
  x.m = static_cast<float*>(m.data());
  for (DeviceBuffer* gradient : {&dq, &dk, &dv}) gradient->fill_bytes(0xff);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    Tiling t = kernel.tiling(p, pass);
    t.deterministic = pass == Pass::backward && kernel.name == "fa2";
    DeviceBuffer workspace(kernel.workspace_bytes(p, t, pass));
    workspace.fill_bytes(0xff);
    x.workspace = workspace.data();
    kernel.launch(p, t, pass, x, nullptr);
    synchronize();
  }
  Gradients g{std::vector<unsigned char>(q), std::vector<unsigned char>(k), std::vector<unsigned char>(k)};
  dq.copy_to_host(g.dq.data(), q), dk.copy_to_host(g.dk.data(), k), dv.copy_to_host(g.dv.data(), k);
  return g;
}

}  // namespace

TEST_CASE("every kernel agrees with the oracle on the adversarial list and on random cases") {
  CheckPlan plan;
  plan.random_cases = 40;
  plan.seed = 11;
  std::map<std::string, int> checked;
  run_checks(plan, [&](const CaseReport& report) {
    for (const KernelReport& kernel : report.kernels) {
      ++checked[kernel.label];
      INFO(kernel.label, ", case ", report.number, ": ", describe(report.c));
      INFO(kernel.error);
      CHECK(kernel.error.empty());
      for (const Comparison& c : kernel.comparisons) {
        INFO(c.tensor, "[", c.index, "] is ", c.got, ", expected ", c.want, " +- ", c.tolerance);
        CHECK(c.passed());
      }
    }
  });
  // Nothing was left out by mistake: every kernel that runs on this device had cases.
  for (const Kernel& kernel : kernels()) {
    Problem p;
    p.seqlen_q = p.seqlen_k = 128, p.head_dim = 128;
    if (!kernel.fault(p, kernel.tiling(p, Pass::forward), Pass::forward).empty()) continue;
    CAPTURE(full_name(kernel));
    CHECK(checked[full_name(kernel)] >= 3);
  }
}

TEST_CASE("fa1, and fa2 when asked, give the same gradients bit for bit in every run") {
  Case c;
  c.problem.batch = 2, c.problem.heads_q = 8, c.problem.heads_kv = 4;
  c.problem.seqlen_q = c.problem.seqlen_k = 1500, c.problem.head_dim = 64, c.problem.causal = true;
  const DeviceInputs inputs(c.problem, inputs_of(c));
  for (const char* name : {"fa1", "fa2"}) {
    CAPTURE(name);
    const Kernel* const kernel = find_kernel(name);
    REQUIRE(kernel != nullptr);
    const Gradients first = gradients_of(*kernel, c.problem, inputs);
    for (int i = 0; i < 4; ++i) CHECK(gradients_of(*kernel, c.problem, inputs) == first);
  }
}

TEST_CASE("rows that see one key have P = 1: dQ is exactly 0, and dK gets nothing from them") {
  for (const int d : {64, 128, 256})
    for (const Dtype dtype : {Dtype::fp16, Dtype::bf16})
      for (const float dropout : {0.0F, 0.25F})
        for (const int n : {1, 150}) {
          Case c;
          Problem& p = c.problem;
          p.batch = 2, p.heads_q = 4, p.heads_kv = 2, p.seqlen_q = p.seqlen_k = n, p.head_dim = d;
          p.dtype = dtype, p.dropout_p = dropout, p.dropout_seed = 5;
          p.window_left = p.window_right = 0;
          const DeviceInputs inputs(p, inputs_of(c));
          for (const char* name : {"fa1", "fa2"}) {
            CAPTURE(name);
            CAPTURE(describe(p));
            const Gradients g = gradients_of(*find_kernel(name), p, inputs);
            const auto is_zero = [](double x) { return x == 0; };
            const std::vector<double> dq = decode(dtype, g.dq, g.dq.size() / 2),
                                      dk = decode(dtype, g.dk, g.dk.size() / 2),
                                      dv = decode(dtype, g.dv, g.dv.size() / 2);
            CHECK(std::all_of(dq.begin(), dq.end(), is_zero));
            CHECK(std::all_of(dk.begin(), dk.end(), is_zero));
            CHECK_FALSE(std::all_of(dv.begin(), dv.end(), is_zero));
          }
        }
}

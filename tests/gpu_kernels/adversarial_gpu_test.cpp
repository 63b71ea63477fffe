// Every kernel on every unkind case and some random ones, and results that must repeat bit for bit.
#include <doctest/doctest.h>

#include <map>

#include "gpu_kernels/check/check_run.h"

using namespace flashsim;
using namespace flashsim::gpu;

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
  const Problem& p = c.problem;
  const DeviceInputs inputs(p, inputs_of(c));
  const auto size = [&p](int heads, int rows, int cols, std::size_t each) {
    return static_cast<std::size_t>(elements(p, heads, rows, cols)) * each;
  };
  for (const char* name : {"fa1", "fa2"}) {
    CAPTURE(name);
    const Kernel* const kernel = find_kernel(name);
    REQUIRE(kernel != nullptr);
    std::vector<std::vector<unsigned char>> runs;
    for (int i = 0; i < 5; ++i) {
      const std::size_t q = size(p.heads_q, p.seqlen_q, p.head_dim, 2),
                        k = size(p.heads_kv, p.seqlen_k, p.head_dim, 2);
      DeviceBuffer o(q), dq(q), dk(k), dv(k), lse(size(p.heads_q, p.seqlen_q, 1, 4)), l(lse.bytes()),
          m(lse.bytes());
      Tensors x = inputs.tensors();
      x.o = o.data(), x.dq = dq.data(), x.dk = dk.data(), x.dv = dv.data();
      x.lse = static_cast<float*>(lse.data()), x.l = static_cast<float*>(l.data()),
      x.m = static_cast<float*>(m.data());
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        Tiling t = kernel->tiling(p, pass);
        t.deterministic = pass == Pass::backward && kernel->name == "fa2";
        DeviceBuffer workspace(kernel->workspace_bytes(p, t, pass));
        workspace.fill_bytes(0xff);
        x.workspace = workspace.data();
        kernel->launch(p, t, pass, x, nullptr);
        synchronize();
      }
      std::vector<unsigned char> all(q + 2 * k);
      dq.copy_to_host(all.data(), q);
      dk.copy_to_host(all.data() + q, k);
      dv.copy_to_host(all.data() + q + k, k);
      runs.push_back(std::move(all));
    }
    for (const auto& run : runs) CHECK(run == runs.front());
  }
}

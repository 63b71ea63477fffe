#include "simulator/cli/bench_suites.h"

#include <algorithm>

namespace flashsim::cli {
namespace {

Problem make(int batch, int heads_q, int heads_kv, int seqlen_q, int seqlen_k, int head_dim,
             Dtype dtype = Dtype::fp16) {
  Problem p;
  p.batch = batch, p.heads_q = heads_q, p.heads_kv = heads_kv;
  p.seqlen_q = seqlen_q, p.seqlen_k = seqlen_k, p.head_dim = head_dim, p.dtype = dtype;
  return p;
}

Suite flash() {
  Suite s{"flash", "forward and backward, 16k tokens, heads x head_dim = 2048", {}, {}};
  for (const int d : {64, 128, 256})
    for (const bool causal : {false, true})
      for (const int n : {512, 1024, 2048, 4096, 8192, 16384}) {
        s.problems.push_back(make(16384 / n, 2048 / d, 2048 / d, n, n, d));
        s.problems.back().causal = causal;
      }
  return s;
}

Suite gap() {
  Suite s{"gap", "standard attention against flash: n = 1024, 16 heads, batch 64", {}, {}};
  s.problems = {make(64, 16, 16, 1024, 1024, 64), make(64, 16, 16, 1024, 1024, 128)};
  return s;
}

Suite decoding() {
  Suite s{"decoding", "1 query, 16 query heads, 2 K/V heads, head_dim 128", {"decoding"}, {}};
  constexpr int most = 1 << 20;
  for (int n = 4096; n <= most; n *= 4) s.problems.push_back(make(most / n, 16, 2, 1, n, 128));  // 1 GiB
  for (int n = 4096; n < most; n *= 4) s.problems.push_back(make(1, 16, 2, 1, n, 128));
  return s;
}

Suite softmax() {
  Suite s{"softmax", "1 GiB of S, rows of 1k to 64k", {"softmax"}, {}};
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp16})
    for (const int n : {1024, 4096, 16384, 65536})
      s.problems.push_back(make(1, 1, 1, (1 << 30) / bytes_of(dtype) / n, n, 8, dtype));
  return s;
}

}  // namespace

const std::vector<Suite>& suites() {
  static const std::vector<Suite> all = {gap(), flash(), decoding(), softmax()};
  return all;
}

std::vector<BenchJob> jobs_of(const Suite& suite) {
  std::vector<BenchJob> jobs;
  for (const Problem& p : suite.problems) {
    const std::vector<BenchJob> more = jobs_of(suite.name, suite.kernels, p);
    jobs.insert(jobs.end(), more.begin(), more.end());
  }
  return jobs;
}

std::vector<BenchJob> jobs_of(const std::string& suite, const std::vector<std::string>& kernels,
                              const Problem& p) {
  std::vector<BenchJob> jobs;
  for (const gpu::Kernel& kernel : gpu::kernels()) {
    const bool wanted = kernels.empty()
                            ? bound_of(kernel) == Bound::matmul
                            : std::find(kernels.begin(), kernels.end(), kernel.name) != kernels.end();
    if (!wanted) continue;
    for (const gpu::Pass pass : {gpu::Pass::forward, gpu::Pass::backward}) {
      Tiling t = kernel.tiling(p, pass);
      if (!kernel.fault(p, t, pass).empty()) continue;
      jobs.push_back({&kernel, p, t, pass, suite});
      if (kernel.name != "fa1") continue;
      t.temporaries = p.dtype;
      jobs.push_back({&kernel, p, t, pass, suite});
    }
  }
  return jobs;
}

}  // namespace flashsim::cli

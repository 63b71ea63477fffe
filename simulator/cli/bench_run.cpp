#include "simulator/cli/bench_run.h"

#include <algorithm>

#include "cpu_reference/random.h"
#include "gpu_kernels/check/inputs.h"
#include "gpu_kernels/common/copy.h"

namespace flashsim::cli {
namespace {

using gpu::Kernel;
using gpu::Pass;

bool stores_scores(const Kernel& k) { return k.name == "standard" || k.name == "standard-cublas"; }

std::size_t bytes(const Problem& p, int heads, int rows, int cols) {
  return static_cast<std::size_t>(elements(p, heads, rows, cols)) *
         static_cast<std::size_t>(bytes_of(p.dtype));
}
std::size_t query_bytes(const Problem& p) { return bytes(p, p.heads_q, p.seqlen_q, p.head_dim); }
std::size_t key_bytes(const Problem& p) { return bytes(p, p.heads_kv, p.seqlen_k, p.head_dim); }
std::size_t score_bytes(const Problem& p) { return bytes(p, p.heads_q, p.seqlen_q, p.seqlen_k); }

}  // namespace

Bound bound_of(const Kernel& kernel) {
  return kernel.name == "decoding" ? Bound::read : kernel.name == "softmax" ? Bound::copy : Bound::matmul;
}

double visible_pairs(const Problem& p) {
  double pairs = 0;
  for (int q = 0; q < p.seqlen_q; ++q) pairs += std::max(0, p.end_key(q) - p.first_key(q));
  return pairs * p.batch * p.heads_q;
}

/// Tensors of one problem on the device, filled with N(0, 1) where they are inputs.
class Bench::Data {
 public:
  Data(const Problem& p, bool scores, bool attention)
      : problem(p), has_scores(scores), has_attention(attention) {
    if (attention) {
      const std::size_t q = query_bytes(p), k = key_bytes(p);
      const auto rows = static_cast<std::size_t>(elements(p, p.heads_q, p.seqlen_q, 1)) * sizeof(float);
      q_ = random(q, 0), d_o_ = random(q, 1), k_ = random(k, 2), v_ = random(k, 3);
      for (gpu::DeviceBuffer* b : {&o_, &dq_}) *b = gpu::DeviceBuffer(q);
      for (gpu::DeviceBuffer* b : {&dk_, &dv_}) *b = gpu::DeviceBuffer(k);
      for (gpu::DeviceBuffer* b : {&lse_, &l_, &m_}) *b = gpu::DeviceBuffer(rows);
    }
    if (scores) {
      s_ = random(score_bytes(p), 4);
      p_ = gpu::DeviceBuffer(score_bytes(p));
    }
  }

  gpu::Tensors tensors(const Kernel& kernel) {
    gpu::Tensors x;
    x.q = q_.data(), x.k = k_.data(), x.v = v_.data(), x.d_o = d_o_.data(), x.o = o_.data();
    x.dq = dq_.data(), x.dk = dk_.data(), x.dv = dv_.data();
    if (!stores_scores(kernel)) x.lse = static_cast<float*>(lse_.data());
    x.l = static_cast<float*>(l_.data()), x.m = static_cast<float*>(m_.data());
    x.s = s_.data(), x.p = p_.data();
    return x;
  }

  const Problem problem;
  const bool has_scores, has_attention;

 private:
  /// The same 4M numbers over and over, from another start for each tensor.
  gpu::DeviceBuffer random(std::size_t size, std::size_t tensor) const {
    constexpr std::size_t count = std::size_t{1} << 22;
    static const std::vector<double> numbers = random_tensor(Distribution::normal, 1, tensor_id::q, count);
    const std::vector<unsigned char> block = gpu::encode(problem.dtype, numbers);
    gpu::DeviceBuffer buffer(size);
    std::size_t skip = tensor * 16 * 12345 % block.size();
    for (std::size_t at = 0; at < size; skip = 0) {
      const std::size_t part = std::min(block.size() - skip, size - at);
      gpu::copy_to_device(static_cast<char*>(buffer.data()) + at, block.data() + skip, part);
      at += part;
    }
    return buffer;
  }

  gpu::DeviceBuffer q_, k_, v_, d_o_, o_, dq_, dk_, dv_, lse_, l_, m_, s_, p_;
};

Bench::Bench(const gpu::Ceilings& ceilings, int warmup, int repeats)
    : ceilings_(ceilings), warmup_(warmup), repeats_(repeats) {}
Bench::~Bench() = default;

std::string Bench::fault(const BenchJob& job) const {
  const Problem& p = job.problem;
  std::string fault = job.kernel->fault(p, job.tiling, job.pass);
  if (!fault.empty()) return fault;
  const std::size_t scores =
      stores_scores(*job.kernel) || bound_of(*job.kernel) == Bound::copy ? score_bytes(p) : 0;
  const std::size_t needed = 4 * query_bytes(p) + 4 * key_bytes(p) + 2 * scores +
                             job.kernel->workspace_bytes(p, job.tiling, job.pass);
  const auto room = static_cast<std::size_t>(0.9 * static_cast<double>(gpu::device_info().memory_bytes));
  return needed <= room ? ""
                        : "it needs " + std::to_string(needed >> 20) + " MiB of device memory; " +
                              std::to_string(room >> 20) + " are there";
}

BenchResult Bench::run(const BenchJob& job) {
  const Problem& p = job.problem;
  const Kernel& kernel = *job.kernel;
  const Bound bound = bound_of(kernel);
  const bool attention = bound != Bound::copy, scores = stores_scores(kernel) || !attention;
  if (data_ == nullptr || data_->problem != p || (scores && !data_->has_scores) ||
      (attention && !data_->has_attention)) {
    data_.reset();  // gives its memory back first
    data_ = std::make_unique<Data>(p, scores, attention);
  }
  gpu::Tensors x = data_->tensors(kernel);
  if (job.pass == Pass::backward) {  // which needs what the forward pass leaves behind
    Tiling t = kernel.tiling(p, Pass::forward);
    t.temporaries = job.tiling.temporaries;
    const gpu::DeviceBuffer workspace(kernel.workspace_bytes(p, t, Pass::forward));
    x.workspace = workspace.data();
    kernel.launch(p, t, Pass::forward, x, nullptr);
    gpu::synchronize();
  }
  const gpu::DeviceBuffer workspace(kernel.workspace_bytes(p, job.tiling, job.pass));
  x.workspace = workspace.data();
  const bool flush = bound != Bound::matmul;
  const double first = gpu::time_launches(kernel, p, job.tiling, job.pass, x, 1, 1, flush).front();
  BenchResult r;
  r.job = job;
  r.repeats = std::clamp(static_cast<int>(0.3 / first), 5, std::max(5, repeats_));
  std::vector<double> seconds =
      gpu::time_launches(kernel, p, job.tiling, job.pass, x, warmup_, r.repeats, flush);
  std::sort(seconds.begin(), seconds.end());
  r.median = seconds[seconds.size() / 2], r.fastest = seconds.front(), r.slowest = seconds.back();
  if (bound == Bound::copy) {
    r.bytes = 2 * static_cast<double>(score_bytes(p));
    r.rate = r.bytes / r.median, r.share = r.rate / ceilings_.copy_bytes_per_second;
    return r;
  }
  const bool backward = job.pass == Pass::backward;
  r.flops = (backward ? 10.0 : 4.0) * p.head_dim * visible_pairs(p);
  const double q = static_cast<double>(query_bytes(p)), k = static_cast<double>(key_bytes(p));
  r.bytes = backward ? 4 * q + 4 * k : 2 * q + 2 * k;
  if (bound == Bound::read) {
    r.rate = r.bytes / r.median, r.share = r.rate / ceilings_.read_bytes_per_second;
  } else {
    r.rate = r.flops / r.median;
    r.share =
        r.rate / (p.dtype == Dtype::bf16 ? ceilings_.bf16_flops_per_second : ceilings_.fp16_flops_per_second);
  }
  return r;
}

}  // namespace flashsim::cli

#include "simulator/cli/traffic_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

namespace flashsim::cli {
namespace {

/// The peak use of every kernel on its own.
class SramByKernel final : public Executor {
 public:
  explicit SramByKernel(const Problem& p) : p_(p) {}
  void begin_kernel(const Launch& l) override {
    constexpr auto unlimited = std::numeric_limits<std::int64_t>::max();
    kernels_.push_back(std::make_unique<Sram>(p_, Placement::kernel, unlimited));
    rings_.push_back(false);
    kernels_.back()->begin_kernel(l);
  }
  void begin_block(const ThreadBlock& b) override { kernels_.back()->begin_block(b); }
  void execute(const Operation& o) override { kernels_.back()->execute(o); }
  void allocate_ring(const TileRef& shape, int stages) override {
    rings_.back() = true;
    kernels_.back()->allocate_ring(shape, stages);
  }
  void release(const TileRef& t, int role) noexcept override { kernels_.back()->release(t, role); }

  const Sram& kernel(std::size_t i) const { return *kernels_[i]; }
  bool has_rings(std::size_t i) const { return rings_[i]; }

 private:
  const Problem& p_;
  std::vector<std::unique_ptr<Sram>> kernels_;
  std::vector<bool> rings_;
};

/// Few queries show every kind of tile: masks are aligned bottom-right, so fewer queries are the last ones.
Problem few_rows(Problem p, const Tiling& t) {
  p.seqlen_q = std::min(p.seqlen_q, 2 * t.block_q);
  p.batch = 1;
  return p;
}

Occupancy occupancy_of(const KernelReport& k, const Tiling& t, bool has_rings, const Gpu& gpu) {
  const int threads = 32 * t.warps + (has_rings ? 128 : 0);  // a producer is a warpgroup of its own
  const auto registers = static_cast<int>((k.registers / 4 + threads - 1) / threads);
  Occupancy o;
  o.blocks = k.traffic.blocks;
  // More registers than a thread can have spill; more than the tiles themselves need are left to the
  // compiler.
  o.blocks_per_sm = gpu.blocks_that_fit(k.sram, threads, std::clamp(registers, 32, 255));
  if (o.blocks_per_sm == 0) return o;
  o.waves = double(o.blocks) / (double(gpu.sm_count) * o.blocks_per_sm);
  const double whole = std::floor(o.waves), rest = (o.waves - whole) * o.blocks_per_sm;
  o.sm_utilisation = (whole + std::min(1.0, rest)) / std::ceil(o.waves);
  return o;
}

/// Inputs and outputs of attention, which any algorithm reads and writes.
bool is_given(Tensor x) {
  switch (x) {
    case Tensor::Q:
    case Tensor::K:
    case Tensor::V:
    case Tensor::O:
    case Tensor::dO:
    case Tensor::dQ:
    case Tensor::dK:
    case Tensor::dV: return true;
    default: return false;
  }
}

Tensor tensor_at(int i) { return static_cast<Tensor>(i); }

Roofline roofline_of(const KernelReport& k, const Problem& p, const Gpu& gpu) {
  const double matmul_rate = gpu.matmul_flops(p.dtype);
  Roofline r;
  if (matmul_rate > 0) r.tensor_cores = double(k.traffic.matmul_flops) / matmul_rate;
  r.exponentials = double(k.traffic.exps) / gpu.exp_per_s();
  r.shared_memory = double(k.traffic.sram_bytes()) / gpu.shared_bytes_per_s();
  if (gpu.l2_bytes_per_s > 0) r.l2 = double(k.traffic.requested_bytes()) / gpu.l2_bytes_per_s;
  r.hbm = double(k.distinct_bytes) / gpu.hbm_bytes_per_s;
  return r;
}

}  // namespace

double Roofline::longest() const { return std::max({tensor_cores, exponentials, shared_memory, l2, hbm}); }

std::string Roofline::bound() const {
  const double t = longest();
  return t == hbm             ? "HBM"
         : t == tensor_cores  ? "matmul"
         : t == exponentials  ? "exp"
         : t == shared_memory ? "SRAM"
                              : "L2";
}

double PassReport::roofline_seconds() const {
  double sum = 0;
  for (const KernelReport& k : kernels) sum += k.roofline.longest();
  return sum;
}

std::string PassReport::bound() const {
  const auto longest = std::max_element(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) {
    return a.roofline.longest() < b.roofline.longest();
  });
  return longest == kernels.end() ? "" : longest->roofline.bound();
}

double PassReport::requested_seconds(const Gpu& gpu) const {
  return double(total.requested_bytes()) / gpu.hbm_bytes_per_s;
}

std::int64_t PassReport::peak_sram() const {
  std::int64_t peak = 0;
  for (const KernelReport& k : kernels) peak = std::max(peak, k.sram);
  return peak;
}
std::int64_t PassReport::peak_registers() const {
  std::int64_t peak = 0;
  for (const KernelReport& k : kernels) peak = std::max(peak, k.registers);
  return peak;
}

std::int64_t tensor_bytes(Tensor x, const Problem& p, const Tiling& t) {
  return std::int64_t{p.batch} * heads_of(x, p) * rows_of(x, p, t) * cols_of(x, p) * bytes_in_hbm(x, p);
}

std::int64_t compulsory_bytes(const Problem& p, Pass pass) {
  // Masks hide whole rows where one sequence is longer than the other; what is visible is one range.
  std::int64_t queries = 0;
  int first_key = p.seqlen_k, end_key = 0;
  for (int q = 0; q < p.seqlen_q; ++q) {
    if (p.first_key(q) >= p.end_key(q)) continue;
    ++queries;
    first_key = std::min(first_key, p.first_key(q));
    end_key = std::max(end_key, p.end_key(q));
  }
  const std::int64_t keys = std::max(0, end_key - first_key);
  const std::int64_t q_side = std::int64_t{p.batch} * p.heads_q, kv_side = std::int64_t{p.batch} * p.heads_kv;
  const bool forward = pass == Pass::forward;
  const std::int64_t read = q_side * queries * (forward ? 1 : 2) + kv_side * keys * 2;
  const std::int64_t written = q_side * p.seqlen_q + (forward ? 0 : kv_side * p.seqlen_k * 2);
  return (read + written) * p.head_dim * bytes_in_hbm(Tensor::Q, p);
}

namespace {

std::vector<KernelReport> report_kernels(const Bind& bind, const Problem& p, const Tiling& t,
                                         const Gpu& gpu) {
  const std::vector<KernelTraffic> counted = count_traffic(bind(p, t), p, t);
  const Problem few = few_rows(p, t);
  SramByKernel sram(few);
  bind(few, t)(sram, Heads::one);

  std::vector<KernelReport> reports;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    KernelReport k;
    k.traffic = counted[i];
    k.sram = sram.kernel(i).peak_sram();
    k.registers = sram.kernel(i).peak_registers();
    for (int x = 0; x < tensor_count; ++x) {
      const TensorTraffic& moved = k.traffic.tensor[static_cast<std::size_t>(x)];
      const std::int64_t whole = is_part(tensor_at(x)) ? moved.bytes() : tensor_bytes(tensor_at(x), p, t);
      for (const Moved& m : {moved.read, moved.written, moved.reduced})
        k.distinct_bytes += std::min(m.bytes, whole);
    }
    k.occupancy = occupancy_of(k, t, sram.has_rings(i), gpu);
    k.roofline = roofline_of(k, p, gpu);
    reports.push_back(std::move(k));
  }
  return reports;
}

}  // namespace

PassReport report_pass(const std::string& name, Pass pass, const Bind& bind, const Problem& p,
                       const Tiling& t, const Gpu& gpu, std::int64_t sram_capacity, bool refuse) {
  PassReport r;
  r.algorithm = name;
  r.pass = pass;
  r.tiling = t;
  r.sram_capacity = sram_capacity;
  if (refuse) sram_use_of(bind, p, t, Placement::kernel, sram_capacity);
  r.paper = sram_use_of(bind, p, t, Placement::paper, sram_capacity);
  r.kernels = report_kernels(bind, p, t, gpu);
  r.total.name = "total";
  r.compulsory_bytes = compulsory_bytes(p, pass);
  for (const KernelReport& k : r.kernels) r.total.add(k.traffic);
  for (int i = 0; i < tensor_count; ++i) {
    const Tensor x = tensor_at(i);
    const TensorTraffic& moved = r.total.of(x);
    if (!is_given(x) && moved.written.bytes + moved.reduced.bytes > 0) {
      // Each part is written once, so what was written is its size.
      r.extra_memory += is_part(x) ? moved.written.bytes : tensor_bytes(x, p, t);
      r.extra_tensors.push_back(x);
    }
  }
  return r;
}

}  // namespace flashsim::cli

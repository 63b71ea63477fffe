// What flashsim traffic says about one pass of one algorithm: counts of the executed schedule, what it needs
// on chip and in memory, and how long a GPU would take at least.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulator/executors/sram.h"
#include "simulator/executors/traffic.h"
#include "simulator/machine/gpu.h"

namespace flashsim::cli {

enum class Pass : std::uint8_t { forward, backward };
constexpr const char* name_of(Pass p) { return p == Pass::forward ? "forward" : "backward"; }

/// How a kernel fills a GPU.
struct Occupancy {
  std::int64_t blocks = 0;    ///< thread blocks of the whole grid
  int blocks_per_sm = 0;      ///< resident at once; 0 where one does not fit
  double waves = 0;           ///< grid / (SMs x resident); 0 where it does not fit
  double sm_utilisation = 0;  ///< share of SMs with a thread block, averaged over waves
};

/// Seconds each unit of the GPU needs at its peak; a kernel takes at least as long as the slowest.
struct Roofline {
  double tensor_cores = 0, exponentials = 0, shared_memory = 0, l2 = 0, hbm = 0;
  double longest() const;
  std::string bound() const;  ///< the unit that takes longest
};

struct KernelReport {
  KernelTraffic traffic;
  std::int64_t sram = 0, registers = 0;  ///< bytes at the peak, Placement::kernel
  std::int64_t distinct_bytes = 0;       ///< each tensor of the kernel once in each direction
  Occupancy occupancy;
  Roofline roofline;
};

struct PassReport {
  std::string algorithm;
  Pass pass = Pass::forward;
  Tiling tiling;
  std::vector<KernelReport> kernels;
  KernelTraffic total;
  SramUse paper;                   ///< Placement::paper
  std::int64_t sram_capacity = 0;  ///< bytes that `paper` was held against
  std::int64_t extra_memory = 0;   ///< bytes in HBM beyond inputs and outputs: S, P, statistics, sums, parts
  std::vector<Tensor> extra_tensors;
  std::int64_t compulsory_bytes = 0;  ///< what no algorithm can do without; see compulsory_bytes()

  double flops() const { return double(total.matmul_flops) + double(total.other_flops); }
  double flops_per_byte() const { return flops() / double(total.requested_bytes()); }
  /// Kernels one after another, each as fast as its slowest unit allows; every distinct byte reaches HBM
  /// once.
  double roofline_seconds() const;
  /// The unit that bounds the longest kernel.
  std::string bound() const;
  /// The papers' two-level model: every requested byte comes from HBM, nothing overlaps with it being the
  /// bound.
  double requested_seconds(const Gpu& gpu) const;
  /// The kernel that holds most shared memory.
  std::int64_t peak_sram() const;
  std::int64_t peak_registers() const;
};

/// Bytes of the whole tensor in HBM, over all heads (parts excepted, whose number only the schedule knows).
std::int64_t tensor_bytes(Tensor x, const Problem& p, const Tiling& t);

/// The least that any algorithm requests: every row of Q, K, V and dO that some result depends on is read
/// once, O or dQ, dK and dV are written once.
std::int64_t compulsory_bytes(const Problem& p, Pass pass);

/// A schedule that waits for the problem and tiling it is to run.
using Bind = std::function<Program(const Problem&, const Tiling&)>;

/// Runs one pass of the algorithm called `name`. `sram_capacity` in bytes is what SRAM is held against. With
/// `refuse` a kernel that needs more raises CapacityError, else it is reported.
PassReport report_pass(const std::string& name, Pass pass, const Bind& bind, const Problem& p,
                       const Tiling& t, const Gpu& gpu, std::int64_t sram_capacity, bool refuse = false);

}  // namespace flashsim::cli

// Counts what a schedule moves and computes: bytes and accesses by kernel, tensor and direction, and FLOPs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/machine/program.h"
#include "simulator/schedules/schedules.h"

namespace flashsim {

/// Bytes and accesses (elements) in one direction.
struct Moved {
  std::int64_t bytes = 0, elements = 0;
  Moved& operator+=(const Moved& o) { return bytes += o.bytes, elements += o.elements, *this; }
};

/// Requested bytes of one tensor: what thread blocks load from and store to memory, before any cache.
struct TensorTraffic {
  Moved read, written, reduced;  ///< reduced: added to (or maximised with) memory in place
  std::int64_t bytes() const { return read.bytes + written.bytes + reduced.bytes; }
  std::int64_t elements() const { return read.elements + written.elements + reduced.elements; }
  TensorTraffic& operator+=(const TensorTraffic& o) {
    return read += o.read, written += o.written, reduced += o.reduced, *this;
  }
};

/// What one kernel (or, added up, a whole pass) did, over all heads.
struct KernelTraffic {
  std::string name;
  std::int64_t blocks = 0;  ///< thread blocks
  std::array<TensorTraffic, tensor_count> tensor{};
  /// Bytes written into shared memory by tile fills, and fetched from it as operands of matrix products by
  /// every warp (with rings: warpgroup) that reads them.
  std::int64_t sram_filled = 0, sram_fetched = 0;
  std::int64_t matmul_flops = 0, exps = 0,
               other_flops = 0;  ///< other: row operations, scaling, exp counted once
  std::int64_t operations = 0;

  const TensorTraffic& of(Tensor x) const { return tensor[static_cast<int>(x)]; }
  TensorTraffic total() const;
  std::int64_t requested_bytes() const { return total().bytes(); }
  std::int64_t sram_bytes() const { return sram_filled + sram_fetched; }
  /// Adds o's counts, `times` over; the name stays.
  void add(const KernelTraffic& o, std::int64_t times = 1);
};

/// Executor that fills one KernelTraffic a launch.
class Traffic final : public Executor {
 public:
  Traffic(const Problem& p, const Tiling& t) : p_(p), t_(t) {}
  void begin_kernel(const Launch& launch) override;
  void begin_block(const ThreadBlock&) override;
  void execute(const Operation& o) override;
  void allocate_ring(const TileRef&, int) override { has_rings_ = true; }

  const std::vector<KernelTraffic>& kernels() const { return kernels_; }

 private:
  void moved(TensorTraffic& x, Moved TensorTraffic::*direction, const TileRef& tile, Tensor in_memory);
  void made(const TileRef& tile, bool shared);
  bool is_shared(const TileRef& tile) const { return shared_[tile.slot]; }
  void product(const Operation& o);

  const Problem& p_;
  const Tiling& t_;
  std::vector<KernelTraffic> kernels_;
  KernelTraffic* now_ = nullptr;
  std::vector<std::uint8_t> shared_;  ///< by slot: the tile was loaded, so it lies in shared memory
  bool has_rings_ = false;
};

/// Traffic of a schedule over all heads: one K/V head is executed, and multiplied, since heads are alike in
/// everything but their numbers.
std::vector<KernelTraffic> count_traffic(const Program& program, const Problem& p, const Tiling& t);
std::vector<KernelTraffic> count_traffic(const std::function<void(Device&)>& schedule, const Problem& p,
                                         const Tiling& t);
std::vector<KernelTraffic> count_traffic(Schedule schedule, const Problem& p, const Tiling& t);

/// The kernels added up.
KernelTraffic sum(const std::vector<KernelTraffic>& kernels, std::string name = "total");

}  // namespace flashsim

// What is on chip: a tile takes room from the operation that first writes it until its handle dies.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "simulator/machine/program.h"

namespace flashsim {

/// Where tiles live.
///   paper:  every tile of Q, K, V, O and S in SRAM at the inputs' width and the row statistics in fp32, as
///   the papers count
///           M; exceeding the capacity is noted, not refused.
///   kernel: what a kernel really holds: loaded tiles in shared memory, results (fp32) in registers;
///   exceeding is refused.
enum class Placement : std::uint8_t { paper, kernel };

class CapacityError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct LiveTile {
  Tensor tensor = Tensor::count;
  int rows = 0, cols = 0;
  std::int64_t bytes = 0;
  bool in_sram = false;
};

class Sram final : public Executor {
 public:
  /// `capacity` in bytes of SRAM (shared memory) a thread block may use; `next`, if given, gets every event
  /// after this one.
  Sram(const Problem& p, Placement placement, std::int64_t capacity, Executor* next = nullptr)
      : p_(p), placement_(placement), capacity_(capacity), next_(next) {}

  void begin_kernel(const Launch& l) override;
  void begin_block(const ThreadBlock& b) override;
  void execute(const Operation& o) override;
  void allocate_ring(const TileRef& shape, int stages) override;
  void release(const TileRef& t, int role) noexcept override;
  void end_block() override;
  void end_kernel() override;

  std::int64_t sram_in_use() const { return sram_; }
  std::int64_t registers_in_use() const { return registers_; }
  std::int64_t peak_sram() const { return peak_sram_; }
  std::int64_t peak_registers() const { return peak_registers_; }
  /// What was alive when SRAM use was highest.
  const std::vector<LiveTile>& at_peak() const { return at_peak_; }
  /// What is alive now, rings included.
  std::vector<LiveTile> live() const;
  /// Empty, or what exceeded the capacity first (paper placement only).
  const std::string& overflow() const { return overflow_; }

 private:
  struct RoleUse {
    std::int64_t sram = 0, registers = 0, peak_sram = 0, peak_registers = 0;
  };
  struct RingUse {
    int used = 0, stages = 0;
    LiveTile stage;
  };
  void allocate(const TileRef& t, const Operation& o);
  void exceeded(const TileRef& t, std::int64_t bytes, std::int64_t held);
  int width_of(const TileRef& t) const;

  const Problem& p_;
  Placement placement_;
  std::int64_t capacity_;
  Executor* next_;
  std::string kernel_;
  std::vector<LiveTile> live_;  // by slot
  std::vector<RingUse> rings_;
  std::array<RoleUse, 16> roles_{};
  std::int64_t ring_bytes_ = 0, sram_ = 0, registers_ = 0, peak_sram_ = 0, peak_registers_ = 0;
  std::vector<LiveTile> at_peak_;
  std::string overflow_;
};

/// What one pass needs on chip.
struct SramUse {
  std::int64_t peak_sram = 0, peak_registers = 0;
  std::vector<LiveTile> at_peak;
  /// Paper placement: what exceeded the capacity first, and the largest square block that would fit; empty
  /// where all fits.
  std::string overflow;
};

/// Runs `schedule` on so few rows that every kind of tile still occurs. Throws CapacityError (kernel
/// placement) with the tile, what is alive, and the largest square block that would fit.
SramUse sram_use(const std::function<void(Device&, const Problem&, const Tiling&)>& schedule,
                 const Problem& p, const Tiling& t, Placement placement, std::int64_t capacity);
/// The same for programs, which are bound to a problem: `bind` makes one for fewer rows or smaller blocks.
SramUse sram_use_of(const std::function<Program(const Problem&, const Tiling&)>& bind, const Problem& p,
                    const Tiling& t, Placement placement, std::int64_t capacity);

}  // namespace flashsim

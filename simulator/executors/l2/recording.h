// What one thread block does to memory, step by step: its schedule's operations, recorded for replay.
//
// A step is what one turn of the schedule's innermost loop loads, computes and stores; it begins where a
// tensor is loaded that the step has loaded already. Loads that a producer queues in a ring count where the
// first consumer takes them, as the ring holds the producer back. A step's loads come when it begins, its
// stores and reductions when it ends: between them lies the data of all thread blocks in flight.
//
// A tile goes to memory by whole lines, with one exception. What is loaded, added to by products and stored
// again (O and dQ of FlashAttention-1) are accumulators: they stay in registers, and a warp that moves
// accumulators of m16n8 moves 8 rows by 32 bytes with an instruction. L2 is then asked four times for a line,
// see Cache::again.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/executors/l2/address_map.h"
#include "simulator/machine/operation.h"

namespace flashsim::l2 {

struct Step {
  std::uint32_t loaded = 0;  ///< end of what it loads, in Recording::touches
  std::uint32_t end = 0;     ///< of what it stores and reduces, behind its loads
  float work = 0;            ///< time it takes, in an arbitrary unit that is the same in all of a kernel
};

struct Recording {
  struct Bytes {
    std::uint16_t area = 0;
    double read = 0, written = 0;                      ///< of the elements named
    double requested_read = 0, requested_written = 0;  ///< as counters see them, see requests.h
  };
  std::vector<Touch> touches;
  std::vector<Step> steps;
  std::vector<Bytes> bytes;       ///< by area
  std::int64_t shared_bytes = 0;  ///< at most alive of tiles loaded from memory
  bool multiplies = false;        ///< uses the tensor cores
  bool has_producer = false;
  /// No matrix products, and no step loads what another one has loaded: rows of a matrix, one after another.
  bool rows_apart = false;

  std::size_t memory() const {
    return sizeof *this + touches.capacity() * sizeof(Touch) + steps.capacity() * sizeof(Step) +
           bytes.capacity() * sizeof(Bytes);
  }
};

class Recorder final : public Executor {
 public:
  Recorder(const Problem& p, const Tiling& t, AddressMap& map) : p_(p), t_(t), map_(map) {}
  void execute(const Operation& op) override;
  void allocate_ring(const TileRef& shape, int stages) override;
  void release(const TileRef& tile, int role) noexcept override;
  /// The recording since the last call.
  Recording finish();

 private:
  static constexpr int roles = 8;
  struct Work {
    double flops = 0, bytes = 0;
  };
  struct Queue {
    std::vector<std::uint32_t> ends;  // of each load's touches, in touches
    std::vector<Touch> touches;
    std::size_t counted = 0;  // loads that some consumer has taken
    std::vector<std::size_t> taken = std::vector<std::size_t>(roles, 0);
  };
  Work& step_of(int role) { return work_[step_[role]]; }
  void begins_step_if_loaded(int role, Tensor x);
  void load(const Operation& op, int role);
  void take(const Operation& op, int role);
  void change(const Operation& op, int role, Access access);
  void accumulate(const TileRef& tile);
  void by_sectors(std::size_t begin, std::size_t end);
  std::int64_t count(const Operation& op, std::uint16_t area, bool written);
  void stamp(int role) { step_of_touch_.resize(recording_.touches.size(), step_[role]); }

  const Problem& p_;
  const Tiling& t_;
  AddressMap& map_;
  Recording recording_;
  std::vector<std::uint32_t> step_of_touch_;
  std::vector<Work> work_ = std::vector<Work>(1);
  std::uint32_t step_[roles] = {};
  std::uint64_t loaded_[roles] = {};  // tensors that the current step has loaded, a bit each
  /// What is on chip since it was loaded (bytes: 0 if it was not): which touches loaded it, and whether
  /// products were added to it.
  struct Held {
    std::int64_t bytes = 0;
    std::size_t begin = 0, end = 0;
    bool accumulates = false;
  };
  std::vector<Queue> queues_;
  std::vector<Held> held_;  // by slot
  std::int64_t shared_bytes_ = 0;
};

}  // namespace flashsim::l2

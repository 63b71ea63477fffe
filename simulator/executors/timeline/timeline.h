// When: the operations of the thread blocks that share one streaming multiprocessor (SM), on a simple model
// of its units. The schedule's own operations are replayed, each warpgroup's in its order, against each
// other: who waits for whom, which unit stands still, what overlaps with what.
//
// The model. Four units work at the rates of the GPU's data sheet: tensor cores, exp unit, CUDA cores, and
// the SM's share of the bytes that memory (L2) delivers. An operation occupies one unit for work / rate
// clocks; exp first the CUDA cores (the subtraction), then the exp unit. A warpgroup issues one operation
// after another and waits for each, unless the schedule calls it asynchronous. What is not in the model:
// shared memory's own rate, registers, launches and instructions; latency only where Request asks for it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/machine/gpu.h"
#include "simulator/machine/program.h"

namespace flashsim::timeline {

enum class Unit : std::uint8_t { tensor_cores, exponentials, cuda_cores, copies, count };
inline constexpr int unit_count = static_cast<int>(Unit::count);
const char* name_of(Unit u);

/// Work that one SM does in a clock.
struct SmRates {
  double clock_hz = 0;
  std::array<double, unit_count> per_clock{};  ///< matmul FLOPs, exps, other FLOPs, requested bytes
  double of(Unit u) const { return per_clock[static_cast<int>(u)]; }
};

/// Where loaded bytes come from: all from L2 (from HBM where the data sheet gives no rate of L2), or all from
/// HBM.
enum class Source : std::uint8_t { l2, hbm };

/// The GPU's rates divided by its SMs and its clock; a CUDA core does one of the other FLOPs a clock. The
/// rate of products is 0 where the GPU's tensor cores do not take `operands`.
SmRates sm_rates(const Gpu& gpu, Dtype operands, Source source = Source::l2);

/// How warpgroups share a unit that several want.
///   turns: one operation at a time, first come, first served. FA3's ping-pong: while one warpgroup
///   multiplies,
///          the other one does its softmax.
///   equal: all of them at once, each at an equal share of the rate. Warpgroups that start together then stay
///          together.
enum class Sharing : std::uint8_t { turns, equal };

struct Request {
  SmRates rates;
  Sharing sharing = Sharing::turns;
  double latency = 0;  ///< clocks from the end of a load's transfer to the moment its tile can be used
  int sm_count =
      1;  ///< the grid's thread blocks go round the SMs; this one gets the first, and every sm_count-th
  std::vector<int> resident;     ///< thread blocks that the SM holds at once, by kernel; 1 where not given
  std::int64_t most_blocks = 0;  ///< stop after so many thread blocks a kernel; 0: as many as are resident
};

/// One operation on one unit. Times in clocks from the kernel's start.
struct Event {
  double begin = 0, end = 0;
  std::int32_t block = 0;  ///< index into KernelTimeline::blocks
  std::int32_t text = 0;   ///< index into KernelTimeline::texts
  std::uint8_t role = 1;   ///< 0: producer, 1 ...: consumer warpgroups
  Unit unit = Unit::count;
  Op op = Op::count;
  Tensor tensor = Tensor::count;  ///< the tile that is loaded, stored, made or changed
  bool async = false;
};

struct BlockRun {
  std::int64_t index = 0;  ///< in the kernel's grid, over all heads
  int row = 0, col = 0;    ///< the blocks it works on
  double begin = 0, end = 0;
};

struct KernelTimeline {
  std::string name;
  std::int64_t grid = 0;  ///< thread blocks over all heads
  int resident = 1;       ///< at once on the SM
  bool has_producer = false;
  int roles = 1;  ///< one more than the last role that does something
  std::vector<BlockRun> blocks;
  std::vector<std::string> texts;  ///< operations as pseudo-code
  std::vector<Event> events;       ///< by their end
  double clocks = 0;               ///< from the start to the end of the last thread block
  std::array<double, unit_count> busy{};

  /// All operations one after another: no overlap at all.
  double serial() const;
  /// The busiest unit: what full overlap would take.
  double bound() const;
  Unit busiest() const;
  double share(Unit u) const { return clocks > 0 ? busy[static_cast<int>(u)] / clocks : 0; }
};

/// The timelines of the program's kernels, on one SM of a GPU that runs them one after another. Throws what
/// the program throws, ScheduleError where every warpgroup waits for another or a tile is used before its
/// wait, and std::length_error where more than two million operations would have to be kept.
std::vector<KernelTimeline> run(const Program& program, const Problem& p, const Request& request);

}  // namespace flashsim::timeline

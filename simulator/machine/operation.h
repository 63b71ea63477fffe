// One line of a schedule as an executor sees it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "simulator/machine/blocks.h"
#include "simulator/machine/tensor.h"

namespace flashsim {

enum class Op : std::uint8_t {
  // memory
  load,
  store,
  reduce_add,
  reduce_max,
  // on chip
  fill,
  copy,
  convert,
  // tensor cores
  matmul_nt,
  add_matmul,
  add_matmul_tn,
  // element by element
  mask,
  dropout,
  exp,
  exp_difference,
  softmax_gradient,
  multiply,
  // rows
  row_max,
  row_sum,
  add_row_sum,
  row_dot,
  max,
  add,
  scale_rows,
  divide_rows,
  log_sum,
  // fp8
  rotate,
  abs_max,
  quantise,
  scale_all,
  // asynchrony
  take,
  wait,
  count
};
std::string_view name_of(Op op);

/// A tile on chip: its place, what it holds, its shape.
struct TileRef {
  static constexpr std::uint16_t no_slot = 0xffff;
  std::uint16_t slot = no_slot;  ///< where the executor keeps it; reused after the tile dies
  Tensor tensor = Tensor::count;
  Dtype dtype = Dtype::fp32;
  std::int8_t ring = -1;  ///< the ring it was taken from, if any
  int rows = 0, cols = 0;
  std::int64_t size() const { return std::int64_t{rows} * cols; }
};

/// What is done. Pointers are null where an operation has no such tile, and valid during the call only.
struct Operation {
  Op kind;
  Tensor tensor = Tensor::count;  ///< load, store, reduce: the tensor in memory
  std::uint8_t role = 1;          ///< 0: producer, 1 ...: consumers; 1 where a thread block has no roles
  bool async = false;             ///< the result may be used only after a wait
  const TileRef* out = nullptr;   ///< written; by in-place operations also read
  const TileRef* a = nullptr;
  const TileRef* b = nullptr;
  Block rows{}, cols{};  ///< where in memory or in S; cols.rows == 0: all columns
  int box_rows = 0;      ///< load by the tensor memory accelerator: rows of its box, 0 where it is none
  double scale = 1;      ///< factor of a product or of multiply, value of a fill
};

/// Where a thread block stands in its kernel's grid.
struct ThreadBlock {
  int batch = 0, head_kv = 0;
  Block row{}, col{};
};

/// A launched kernel; `blocks` counts the thread blocks of one K/V head of one batch entry.
struct Launch {
  std::string_view name;
  std::int64_t blocks = 0;
};

/// Consumes operations, thread block after thread block. Executors may be stacked.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void begin_kernel(const Launch&) {}
  virtual void begin_block(const ThreadBlock&) {}
  virtual void execute(const Operation&) = 0;
  /// A ring of `stages` buffers of `shape` exists until the thread block ends; shape.ring is its number.
  virtual void allocate_ring(const TileRef& /*shape*/, int /*stages*/) {}
  /// The tile's handle died. Cannot throw: a fault found here is raised by the next operation.
  virtual void release(const TileRef&, int /*role*/) noexcept {}
  virtual void end_block() {}
  virtual void end_kernel() {}
};

/// A schedule did what no machine can do: shapes that do not fit, a tile used before its wait.
class ScheduleError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace flashsim

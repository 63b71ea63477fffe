// Cuts the stream of operations into steps: one for every visit of a tile of S, and one for what a thread
// block does outside such visits (initialising, finishing, merging).
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/machine/operation.h"

namespace flashsim {

/// Where a step stands.
struct StepPosition {
  int kernel = -1;    ///< counts launches from 0
  ThreadBlock block;  ///< the thread block that ran it
  int role = 1;       ///< 0: producer, 1 ...: consumers
  Block rows, cols;   ///< the part of S it visits; cols.rows == 0: none
  bool visits_tile() const { return cols.rows > 0; }
};

/// An executor that learns where steps begin and end. A step ends when the last score-shaped tile of its
/// visit dies. Two rules cover what does not fit: single rows that follow one another (standard softmax) make
/// one step a row block; and where P of one visit outlives the S of the next (FA3), a step begins with taking
/// the next K.
class TileSteps : public Executor {
 public:
  explicit TileSteps(const Tiling& t) : t_(t) {}

  void begin_kernel(const Launch& l) final;
  void begin_block(const ThreadBlock& b) final;
  void execute(const Operation& o) final;
  void allocate_ring(const TileRef& shape, int stages) final { ring(shape, stages); }
  void release(const TileRef& t, int role) noexcept final;
  void end_block() final;
  void end_kernel() final { kernel_ends(); }

 protected:
  virtual void kernel_begins(const Launch&) {}
  virtual void block_begins(const ThreadBlock&) {}
  virtual void ring(const TileRef& /*shape*/, int /*stages*/) {}
  virtual void step_begins() {}
  /// Executes the operation.
  virtual void operation(const Operation& o) = 0;
  virtual void tile_dies(const TileRef&, int /*role*/) noexcept {}
  /// The step's operations are over; its tiles may still be alive.
  virtual void step_ends(const StepPosition&) = 0;
  virtual void block_ends() {}
  virtual void kernel_ends() {}

  /// A tile of S was made or loaded in this step.
  bool in_visit() const { return now_.visits_tile(); }
  /// The rows of memory that a live tile was loaded from or computed for; rows == 0 where unknown.
  Block rows_of_tile(const TileRef& t) const;
  /// The columns of S that a score-shaped tile covers.
  Block cols_of_tile(const TileRef& t) const;

 private:
  struct Origin {
    Block rows, cols;
    bool score = false;
  };
  Origin& origin(const TileRef& t);
  bool begins_step(const Operation& o) const;
  void trace(const Operation& o);
  void finish_step();

  const Tiling& t_;
  StepPosition now_;
  bool open_ = false;         ///< the step has operations
  bool visit_over_ = false;   ///< its last score tile died
  bool stored_last_ = false;  ///< its last operation was a store
  int live_scores_ = 0;
  std::vector<Origin> origins_;  ///< by slot
};

}  // namespace flashsim

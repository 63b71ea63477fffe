// Refuses a schedule that touches a tile before the asynchronous operation on it was waited for.
#pragma once

#include <string>
#include <vector>

#include "simulator/machine/operation.h"

namespace flashsim {

/// Passes everything on to the next executor. Throws ScheduleError where a tile is used, or where it or an
/// operand of an operation in flight dies, before a wait. A wait completes everything its role issued before,
/// as wgmma does.
class Hazard final : public Executor {
 public:
  explicit Hazard(Executor& next) : next_(next) {}
  void begin_kernel(const Launch& l) override { next_.begin_kernel(l); }
  void begin_block(const ThreadBlock& b) override;
  void execute(const Operation& o) override;
  void allocate_ring(const TileRef& shape, int stages) override { next_.allocate_ring(shape, stages); }
  void release(const TileRef& t, int role) noexcept override;
  void end_block() override;
  void end_kernel() override { next_.end_kernel(); }

 private:
  struct InFlight {
    std::uint16_t slot;
    Tensor tensor;
    bool written;  ///< the result; operands may still be read
  };
  void raise();
  void require_done(const TileRef* t, bool reads_only, const char* what);

  Executor& next_;
  std::vector<InFlight> flying_;
  std::string fault_;
};

}  // namespace flashsim

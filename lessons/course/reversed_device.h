// A device whose thread blocks run from the last to the first: what may happen on a GPU, which promises no
// order.
#pragma once

#include "simulator/machine/device.h"

namespace flashsim::course {

class ReversedDevice final : public Device {
 public:
  ReversedDevice(const Problem& p, Executor& e, Heads heads) : p_(p), executor_(e), heads_(heads) {}

 private:
  void launch(std::string_view name, Blocks rows, Blocks cols, const Body2D& body) override {
    executor_.begin_kernel({name, std::int64_t{rows.count()} * cols.count()});
    Machine sm(p_, executor_);
    for (int b = 0; b < p_.batch; ++b)
      for (int h = 0; h < p_.heads_kv; ++h)
        for (int i = heads_.has(b, h) ? rows.count() - 1 : -1; i >= 0; --i)
          for (int j = cols.count() - 1; j >= 0; --j) {
            executor_.begin_block({b, h, rows[i], cols[j]});
            sm.begin_block();
            body(sm, rows[i], cols[j]);
            executor_.end_block();
          }
    executor_.end_kernel();
  }
  const Problem& p_;
  Executor& executor_;
  Heads heads_;
};

}  // namespace flashsim::course

#include "simulator/machine/device.h"

namespace flashsim {

void SerialDevice::launch(std::string_view name, Blocks rows, Blocks cols, const Body2D& body) {
  executor_.begin_kernel({name, std::int64_t{rows.count()} * cols.count()});
  Machine sm(p_, executor_);
  for (int b = 0; b < p_.batch; ++b)
    for (int h = 0; h < p_.heads_kv; ++h) {
      if (!heads_.has(b, h)) continue;
      for (Block i : rows)
        for (Block j : cols) {
          executor_.begin_block({b, h, i, j});
          sm.begin_block();
          body(sm, i, j);
          executor_.end_block();
        }
    }
  executor_.end_kernel();
}

}  // namespace flashsim

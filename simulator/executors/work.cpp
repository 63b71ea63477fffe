#include "simulator/executors/work.h"

namespace flashsim {

Work work_of(const Operation& o) {
  switch (o.kind) {
    case Op::matmul_nt:
    case Op::add_matmul: return {.matmul_flops = 2 * o.out->size() * o.a->cols};
    case Op::add_matmul_tn: return {.matmul_flops = 2 * o.out->size() * o.a->rows};
    case Op::exp:
    case Op::exp_difference:  // subtract, exp
      return {.exps = o.out->size(), .other_flops = 2 * o.out->size()};
    case Op::row_max:
    case Op::row_sum:
    case Op::abs_max:
    case Op::add_row_sum: return {.other_flops = o.a->size()};
    case Op::row_dot: return {.other_flops = 2 * o.a->size()};
    case Op::softmax_gradient:
    case Op::log_sum: return {.other_flops = 2 * o.out->size()};
    case Op::max:
    case Op::add:
    case Op::multiply:
    case Op::dropout:
    case Op::scale_rows:
    case Op::divide_rows:
    case Op::quantise:
    case Op::scale_all: return {.other_flops = o.out->size()};
    case Op::rotate: {  // signs, then log2(d) additions an element
      int steps = 0;
      while ((1 << steps) < o.out->cols) ++steps;
      return {.other_flops = o.out->size() * (1 + steps)};
    }
    case Op::load:
    case Op::store:
    case Op::reduce_add:
    case Op::reduce_max:
    case Op::fill:
    case Op::copy:
    case Op::convert:
    case Op::mask:
    case Op::take:
    case Op::wait:
    case Op::count: break;
  }
  return {};
}

}  // namespace flashsim

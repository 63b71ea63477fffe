#include "lessons/grader/guard.h"

namespace flashsim::lessons {
namespace {

bool makes_new_tile(const Operation& o) {
  switch (o.kind) {
    case Op::load: return !o.async;
    case Op::take:
    case Op::fill:
    case Op::copy:
    case Op::matmul_nt:
    case Op::row_max:
    case Op::row_sum:
    case Op::row_dot:
    case Op::max:
    case Op::exp_difference:
    case Op::abs_max: return true;
    default: return false;
  }
}

std::int64_t elements_of(const Operation& o) {
  std::int64_t work = 1;
  for (const TileRef* t : {o.out, o.a, o.b})
    if (t != nullptr) work += t->size();
  if (o.kind == Op::matmul_nt || o.kind == Op::add_matmul) work += o.out->size() * o.a->cols;
  if (o.kind == Op::add_matmul_tn) work += o.out->size() * o.a->rows;
  return work;
}

}  // namespace

void Guard::begin_kernel(const Launch& l) {
  if (++launches_ > allowed_.launches)
    throw RuleError("more than " + std::to_string(allowed_.launches) +
                    " kernels are launched; one launch serves all blocks of its grid");
  next_.begin_kernel(l);
}

void Guard::begin_block(const ThreadBlock& b) {
  if (++blocks_ > allowed_.thread_blocks)
    throw RuleError("more than " + std::to_string(allowed_.thread_blocks) + " thread blocks are run");
  live_ = 0;
  next_.begin_block(b);
}

void Guard::hold(std::int64_t elements) {
  live_ += elements;
  if (live_ > allowed_.live_elements)
    throw RuleError(
        "more than " + std::to_string(allowed_.live_elements) +
        " elements are alive on chip at once, many times what the tiling needs; is a whole row of S, or "
        "all of K, held on chip?");
}

void Guard::execute(const Operation& o) {
  if ((o.kind == Op::store || o.kind == Op::reduce_add || o.kind == Op::reduce_max) &&
      o.tensor < Tensor::count) {
    if (read_only_[static_cast<int>(o.tensor)])
      throw RuleError(std::string(name_of(o.kind)) + " to " + std::string(name_of(o.tensor)) +
                      ": this tensor is an input, and inputs are read-only");
  }
  if (o.tensor == Tensor::dropout_mask)
    throw RuleError(
        "the mask of dropout is not kept in memory here: draw it again (its elements are counted as one "
        "byte, and hold no numbers)");
  if (o.rows.part != 0 && (o.rows.part >= allowed_.parts || !is_part(o.tensor)) && o.tensor < Tensor::count)
    throw RuleError(std::string(name_of(o.tensor)) + " has no part " + std::to_string(o.rows.part) +
                    "; only O_part, LSE_part, l_part and m_part have parts, one for every range of keys");
  work_ += elements_of(o);
  if (work_ > allowed_.work)
    throw RuleError(
        "this run computes many times what the algorithm needs, and was stopped; is a loop nested in one "
        "too many?");
  if (makes_new_tile(o) && o.out->ring < 0) hold(o.out->size());
  next_.execute(o);
}

void Guard::allocate_ring(const TileRef& shape, int stages) {
  hold(shape.size() * stages);
  next_.allocate_ring(shape, stages);
}

void Guard::release(const TileRef& t, int role) noexcept {
  if (t.ring < 0) live_ -= t.size();
  next_.release(t, role);
}

}  // namespace flashsim::lessons

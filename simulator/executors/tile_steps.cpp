#include "simulator/executors/tile_steps.h"

#include <algorithm>

namespace flashsim {
namespace {

bool loads(const Operation& o) { return o.kind == Op::load || o.kind == Op::take; }
bool stores(const Operation& o) {
  return o.kind == Op::store || o.kind == Op::reduce_add || o.kind == Op::reduce_max;
}

/// The block that covers both.
Block together(Block a, Block b) {
  if (a.rows == 0) return b;
  const int end = std::max(a.end(), b.end());
  a.begin = std::min(a.begin, b.begin);
  a.rows = end - a.begin;
  return a;
}

}  // namespace

auto TileSteps::origin(const TileRef& t) -> Origin& {
  if (t.slot >= origins_.size()) origins_.resize(t.slot + 1);
  return origins_[t.slot];
}

Block TileSteps::rows_of_tile(const TileRef& t) const {
  return t.slot < origins_.size() ? origins_[t.slot].rows : Block{};
}

Block TileSteps::cols_of_tile(const TileRef& t) const {
  return t.slot < origins_.size() ? origins_[t.slot].cols : Block{};
}

void TileSteps::begin_kernel(const Launch& l) {
  ++now_.kernel;
  kernel_begins(l);
}

void TileSteps::begin_block(const ThreadBlock& b) {
  now_.block = b;
  live_scores_ = 0;
  origins_.clear();
  block_begins(b);
}

bool TileSteps::begins_step(const Operation& o) const {
  if (!open_) return true;
  if (o.role != now_.role) return true;
  const bool takes_key = o.kind == Op::take && (o.tensor == Tensor::K || o.tensor == Tensor::K8);
  if (now_.visits_tile() && takes_key) return true;
  if (!now_.visits_tile()) return stored_last_ && loads(o);
  if (!visit_over_) return false;
  const bool next_row = o.kind == Op::load && is_score_shaped(o.tensor) && o.rows.begin == now_.rows.end() &&
                        o.rows.group == now_.rows.group &&
                        o.rows.begin / t_.block_q == now_.rows.begin / t_.block_q &&
                        o.cols.begin == now_.cols.begin && o.cols.rows == now_.cols.rows;
  return !next_row;
}

/// Follows where tiles come from, and which part of S the step visits.
void TileSteps::trace(const Operation& o) {
  if (o.out == nullptr || o.out->slot == TileRef::no_slot) return;
  Origin& out = origin(*o.out);
  if (o.kind == Op::load || o.kind == Op::take) {
    out = {o.rows, o.cols, false};
  } else if (o.kind == Op::matmul_nt) {
    out = {rows_of_tile(*o.a), rows_of_tile(*o.b), false};
  } else if (o.kind == Op::copy || o.kind == Op::row_max || o.kind == Op::row_sum || o.kind == Op::row_dot ||
             o.kind == Op::max || o.kind == Op::exp_difference) {
    out = {rows_of_tile(*o.a), {}, false};
  } else if (o.kind == Op::fill || o.kind == Op::abs_max) {
    out = {};
  } else {
    return;  // in place
  }
  if (!is_score_shaped(o.out->tensor)) return;
  out.score = true;
  ++live_scores_;
  visit_over_ = false;
  if (out.rows.rows > 0 && out.cols.rows > 0) {
    now_.rows = together(now_.rows, out.rows);
    now_.cols = together(now_.cols, out.cols);
  }
}

void TileSteps::execute(const Operation& o) {
  if (begins_step(o)) {
    finish_step();
    open_ = true;
    now_.role = o.role;
    step_begins();
  }
  operation(o);
  trace(o);
  stored_last_ = stores(o);
}

void TileSteps::release(const TileRef& t, int role) noexcept {
  if (t.slot < origins_.size() && origins_[t.slot].score) {
    origins_[t.slot].score = false;
    if (--live_scores_ == 0) visit_over_ = true;
  }
  tile_dies(t, role);
}

void TileSteps::finish_step() {
  if (!open_) return;
  open_ = false;
  step_ends(now_);
  now_.rows = now_.cols = {};
  visit_over_ = stored_last_ = false;
}

void TileSteps::end_block() {
  finish_step();
  block_ends();
}

}  // namespace flashsim

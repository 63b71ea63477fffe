#include "simulator/machine/machine.h"

#include <string>

#include "simulator/machine/rules.h"

namespace flashsim {

void Machine::issue(Operation&& op) {
  op.role = role_;
  require_sensible(op, p_);
  executor_->execute(op);  // by reference: copying a freshly written record stalls on store forwarding
}

Tile Machine::make(Tensor x, int rows, int cols, Dtype dtype, std::int8_t ring) {
  std::uint16_t slot;
  if (free_slots_.empty()) {
    require(next_slot_ != TileRef::no_slot, "more than 65,535 tiles are alive; let some handles die");
    slot = next_slot_++;
    free_slots_.reserve(next_slot_);  // so that give_back never allocates
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  return Tile(this, {slot, x, dtype, ring, rows, cols});
}

void Machine::give_back(const TileRef& r) noexcept {
  executor_->release(r, role_);
  free_slots_.push_back(r.slot);
}

void Machine::begin_block() {
  queues_.clear();
  role_ = 1;
}

// ---------------------------------------------------------------------------------------------------- memory

Tile Machine::load(Tensor x, Block r, Block c) {
  Tile t = make(x, r.rows, c.rows > 0 ? c.rows : cols_of(x, p_), dtype_in_hbm(x, p_));
  issue({.kind = Op::load, .tensor = x, .out = &t.ref_, .rows = r, .cols = c});
  return t;
}

Tile Machine::load_box(Tensor x, Block r, int box_rows) {
  require(box_rows >= r.rows, "load_box: the box has fewer rows than the block");
  Tile t = make(x, r.rows, cols_of(x, p_), dtype_in_hbm(x, p_));
  issue({.kind = Op::load, .tensor = x, .out = &t.ref_, .rows = r, .box_rows = box_rows});
  return t;
}

void Machine::store(Tensor x, Block r, Block c, const Tile& t) {
  issue({.kind = Op::store, .tensor = x, .a = &t.ref_, .rows = r, .cols = c});
}

void Machine::reduce_add(Tensor x, Block r, const Tile& t) {
  issue({.kind = Op::reduce_add, .tensor = x, .a = &t.ref_, .rows = r});
}

void Machine::reduce_max(Tensor x, Block r, const Tile& t) {
  issue({.kind = Op::reduce_max, .tensor = x, .a = &t.ref_, .rows = r});
}

// ------------------------------------------------------------------------------------------------- new tiles

Tile Machine::fill(Tensor x, Block r, double value) {
  Tile t = make(x, r.rows, cols_of(x, p_), accumulator(p_));
  issue({.kind = Op::fill, .out = &t.ref_, .scale = value});
  return t;
}

Tile Machine::copy(Tensor x, const Tile& from) {
  Tile t = make(x, from.rows(), from.cols(), from.ref_.dtype);
  issue({.kind = Op::copy, .out = &t.ref_, .a = &from.ref_});
  return t;
}

// ---------------------------------------------------------------------------------------------- tensor cores

Tile Machine::product(Tensor x, const Tile& a, const Tile& b, double scale, bool async) {
  Tile t = make(x, a.rows(), b.rows(), accumulator(p_));
  issue({.kind = Op::matmul_nt, .async = async, .out = &t.ref_, .a = &a.ref_, .b = &b.ref_, .scale = scale});
  return t;
}

Tile Machine::matmul_nt(Tensor x, const Tile& a, const Tile& b, double scale) {
  return product(x, a, b, scale, false);
}
Tile Machine::matmul_nt_async(Tensor x, const Tile& a, const Tile& b, double scale) {
  return product(x, a, b, scale, true);
}

void Machine::add_matmul(Tile& c, const Tile& a, const Tile& b, double scale) {
  issue({.kind = Op::add_matmul, .out = &c.ref_, .a = &a.ref_, .b = &b.ref_, .scale = scale});
}
void Machine::add_matmul_async(Tile& c, const Tile& a, const Tile& b, double scale) {
  issue({.kind = Op::add_matmul, .async = true, .out = &c.ref_, .a = &a.ref_, .b = &b.ref_, .scale = scale});
}

void Machine::add_matmul_tn(Tile& c, const Tile& a, const Tile& b, double scale) {
  issue({.kind = Op::add_matmul_tn, .out = &c.ref_, .a = &a.ref_, .b = &b.ref_, .scale = scale});
}

// ---------------------------------------------------------------------------------------- element by element

void Machine::mask(Tile& s, Block i, Block j) {
  if (!sees_all(p_, i, j)) issue({.kind = Op::mask, .out = &s.ref_, .rows = i, .cols = j});
}

void Machine::dropout(Tile& x, Block i, Block j) {
  if (p_.dropout_p > 0) issue({.kind = Op::dropout, .out = &x.ref_, .rows = i, .cols = j});
}

Tile& Machine::exp(Tile& s, const Tile& m) {
  s.ref_.tensor = Tensor::P;  // renamed first, so that executors show the name the result has
  issue({.kind = Op::exp, .out = &s.ref_, .a = &m.ref_});
  return s;
}

Tile Machine::exp_difference(const Tile& a, const Tile& b) {
  return column(Tensor::correction, Op::exp_difference, a, &b);
}

Tile& Machine::softmax_gradient(Tile& dp, const Tile& p, const Tile& d) {
  dp.ref_.tensor = Tensor::dS;
  issue({.kind = Op::softmax_gradient, .out = &dp.ref_, .a = &p.ref_, .b = &d.ref_});
  return dp;
}

Tile& Machine::multiply(Tile& x, double factor) {
  issue({.kind = Op::multiply, .out = &x.ref_, .scale = factor});
  return x;
}

Tile& Machine::multiply(Tile& x, const Tile& y) {
  issue({.kind = Op::multiply, .out = &x.ref_, .a = &y.ref_});
  return x;
}

Tile& Machine::add(Tile& x, const Tile& y) {
  issue({.kind = Op::add, .out = &x.ref_, .a = &y.ref_});
  return x;
}

Tile& Machine::convert(Tile& t, Dtype to, double factor) {
  t.ref_.dtype = to;
  issue({.kind = Op::convert, .out = &t.ref_, .scale = factor});
  return t;
}

// ------------------------------------------------------------------------------------------------------ rows

Tile Machine::column(Tensor x, Op kind, const Tile& a, const Tile* b) {
  Tile t = make(x, a.rows(), 1, accumulator(p_));
  issue({.kind = kind, .out = &t.ref_, .a = &a.ref_, .b = b != nullptr ? &b->ref_ : nullptr});
  return t;
}

Tile Machine::row_dot(const Tile& a, const Tile& b) { return column(Tensor::D, Op::row_dot, a, &b); }

Tile Machine::max(const Tile& a, const Tile& b) { return column(Tensor::m, Op::max, a, &b); }

Tile& Machine::add_row_sum(Tile& l, const Tile& s) {
  issue({.kind = Op::add_row_sum, .out = &l.ref_, .a = &s.ref_});
  return l;
}

Tile& Machine::by_rows(Op kind, Tile& x, const Tile& column) {
  issue({.kind = kind, .out = &x.ref_, .a = &column.ref_});
  return x;
}

Tile& Machine::log_sum(Tile& m, const Tile& l) {
  m.ref_.tensor = Tensor::LSE;
  issue({.kind = Op::log_sum, .out = &m.ref_, .a = &l.ref_});
  return m;
}

// ------------------------------------------------------------------------------------------------------- fp8

Tile& Machine::rotate(Tile& x) {
  issue({.kind = Op::rotate, .out = &x.ref_});
  return x;
}

Tile Machine::abs_max(Tensor x, const Tile& t) {
  Tile s = make(x, 1, 1, accumulator(p_));
  issue({.kind = Op::abs_max, .out = &s.ref_, .a = &t.ref_});
  return s;
}

Tile& Machine::quantise(Tensor x8, Tile& x, const Tile& largest) {
  x.ref_.tensor = x8;
  x.ref_.dtype = Dtype::e4m3;
  issue({.kind = Op::quantise, .out = &x.ref_, .a = &largest.ref_});
  return x;
}

Tile& Machine::scale_all(Tile& x, const Tile& by, double factor) {
  issue({.kind = Op::scale_all, .out = &x.ref_, .a = &by.ref_, .scale = factor});
  return x;
}

// ----------------------------------------------------------------------------------------------------- roles

Ring Machine::ring(Tensor x, int rows, int stages) {
  require(queues_.size() < 100, "more than 100 rings in one thread block");
  require(stages >= 1, "a ring needs at least one stage");
  const auto id = static_cast<std::int8_t>(queues_.size());
  queues_.push_back({x, rows, {}, 0});
  executor_->allocate_ring({TileRef::no_slot, x, dtype_in_hbm(x, p_), id, rows, cols_of(x, p_)}, stages);
  return {id};
}

void Machine::load(Ring g, Block r) {
  Queue& q = queues_[g.id];
  const TileRef arriving{TileRef::no_slot,     q.tensor, dtype_in_hbm(q.tensor, p_), g.id, r.rows,
                         cols_of(q.tensor, p_)};
  issue(
      {.kind = Op::load, .tensor = q.tensor, .async = true, .out = &arriving, .rows = r, .box_rows = q.rows});
  q.loaded.push_back(r);
}

Tile Machine::take(Ring g) {
  Queue& q = queues_[g.id];
  if (q.taken == q.loaded.size())
    throw ScheduleError("take: the producer never loads " + std::string(name_of(q.tensor)) + " tile " +
                        std::to_string(q.taken + 1) + " of this ring; the consumer would wait for ever");
  const Block r = q.loaded[q.taken++];
  Tile t = make(q.tensor, r.rows, cols_of(q.tensor, p_), dtype_in_hbm(q.tensor, p_), g.id);
  issue({.kind = Op::take, .tensor = q.tensor, .out = &t.ref_, .rows = r});
  return t;
}

void Machine::wait(const Tile& t) { issue({.kind = Op::wait, .out = &t.ref_}); }

}  // namespace flashsim

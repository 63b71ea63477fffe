#include "simulator/executors/numeric.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_reference/dropout.h"
#include "cpu_reference/hadamard.h"
#include "cpu_reference/rounding.h"
#include "simulator/executors/hazard.h"

namespace flashsim {
namespace {

constexpr std::uint64_t rotation_seed = 0;  // Q and K must be rotated alike, nothing more

template <class Matrix>
void round_all(Dtype t, Matrix& m) {
  round_to(t, m.data(), static_cast<std::size_t>(m.size()));
}

/// The tiling decides how many scales there are, so only memory knows where they end.
template <class Matrix>
void require_rows(const Matrix& m, Tensor x, int first, int rows) {
  if (first < 0 || first + rows > m.rows())
    throw MemoryError("row " + std::to_string(first + rows - 1) + " of " + std::string(name_of(x)) +
                      " does not exist; it has " + std::to_string(m.rows()));
}

/// c += scale * a b where b may hold infinities or NaN: a hidden element of a (-0) takes no part.
template <class Matrix, class Real>
void add_product_without_hidden(Matrix& c, const Matrix& a, const Matrix& b, Real scale, bool transposed) {
  const Eigen::Index inner = transposed ? a.rows() : a.cols();
  for (Eigen::Index r = 0; r < c.rows(); ++r)
    for (Eigen::Index k = 0; k < inner; ++k) {
      const Real x = transposed ? a(k, r) : a(r, k);
      if (x == 0 && std::signbit(x)) continue;
      c.row(r) += scale * x * b.row(k);
    }
}

}  // namespace

template <class Real>
auto Numeric<Real>::at(const TileRef& t) -> Matrix& {
  if (t.slot >= tiles_.size()) {
    tiles_.resize(t.slot + 1);
    masked_.resize(t.slot + 1);
  }
  return tiles_[t.slot];
}

template <class Real>
int Numeric<Real>::head_of(Tensor x, int query_head_in_group) const {
  if (is_key_side(x)) return block_.batch * p_.heads_kv + block_.head_kv;
  return block_.batch * p_.heads_q + block_.head_kv * p_.group() + query_head_in_group;
}

template <class Real>
void Numeric<Real>::transfer(const Operation& o) {
  const bool loads = o.kind == Op::load || o.kind == Op::take;
  const TileRef& ref = loads ? *o.out : *o.a;
  Matrix& tile = at(ref);
  const int first_col = o.cols.begin, part = o.rows.part, pack = o.rows.pack;
  if (loads) {
    tile.resize(ref.rows, ref.cols);
    masked_[ref.slot] = is_score_shaped(o.tensor);  // stored P holds -0 where hidden
  } else {
    rounded_a_ = tile;
    if (o.tensor == Tensor::dropout_mask)
      rounded_a_ = tile.unaryExpr([](Real x) { return Real(x != 0); });
    else
      round_all(dtype_in_hbm(o.tensor, p_), rounded_a_);
  }
  const bool packed = pack > 1 && !is_key_side(o.tensor);
  // Rows of one head are contiguous; packed rows alternate between heads.
  for (int run = 0, length; run < ref.rows; run += length) {
    length = packed ? 1 : ref.rows;
    const int row = o.rows.begin + run;
    const int head = head_of(o.tensor, packed ? row % pack : o.rows.group), from = packed ? row / pack : row;
    if (loads) {
      const auto& memory = memory_.at_for_load(o.tensor, head, part);
      require_rows(memory, o.tensor, from, length);
      tile.middleRows(run, length) = memory.block(from, first_col, length, ref.cols);
      continue;
    }
    auto& matrix = memory_.at_for_store(o.tensor, head, part);
    require_rows(matrix, o.tensor, from, length);
    auto memory = matrix.block(from, first_col, length, ref.cols);
    const auto values = rounded_a_.middleRows(run, length);
    if (o.kind == Op::store) memory = values;
    if (o.kind == Op::reduce_add) memory += values;
    if (o.kind == Op::reduce_max) memory = memory.cwiseMax(values).eval();
  }
}

template <class Real>
auto Numeric<Real>::operand(const TileRef& t, Matrix& rounded) -> const Matrix& {
  const Dtype wanted = p_.dtype == Dtype::e4m3 ? Dtype::fp16 : p_.dtype;
  Matrix& x = at(t);
  if (bytes_of(t.dtype) <= bytes_of(wanted)) return x;
  rounded = x;
  round_all(wanted, rounded);
  return rounded;
}

template <class Real>
void Numeric<Real>::matrix_product(const Operation& o) {
  Matrix& c = at(*o.out);
  const Matrix &a = operand(*o.a, rounded_a_), &b = operand(*o.b, rounded_b_);
  const Real scale = static_cast<Real>(o.scale);
  if (o.kind == Op::matmul_nt) {
    masked_[o.out->slot] = false;
    c.noalias() = scale * a * b.transpose();
  } else if (masked_[o.a->slot] && !b.allFinite()) {
    add_product_without_hidden(c, a, b, scale, o.kind == Op::add_matmul_tn);
  } else if (o.kind == Op::add_matmul) {
    c.noalias() += scale * a * b;
  } else {
    c.noalias() += scale * a.transpose() * b;
  }
}

template <class Real>
void Numeric<Real>::mask(const Operation& o) {
  Matrix& s = at(*o.out);
  masked_[o.out->slot] = true;
  const int cols = static_cast<int>(s.cols());
  for (int r = 0; r < s.rows(); ++r) {
    const int query = (o.rows.begin + r) / o.rows.pack;
    const int lo = std::clamp(p_.first_key(query) - o.cols.begin, 0, cols);
    const int hi = std::clamp(p_.end_key(query) - o.cols.begin, lo, cols);
    s.row(r).head(lo).setConstant(-std::numeric_limits<Real>::infinity());
    s.row(r).tail(cols - hi).setConstant(-std::numeric_limits<Real>::infinity());
  }
}

template <class Real>
void Numeric<Real>::dropout(const Operation& o) {
  Matrix& x = at(*o.out);
  factors_.resize(static_cast<std::size_t>(x.cols()));
  for (int r = 0; r < x.rows(); ++r) {
    const int row = o.rows.begin + r, pack = o.rows.pack;
    const int head = head_of(Tensor::Q, pack > 1 ? row % pack : o.rows.group);
    dropout_row(p_, head, row / pack, o.cols.begin, static_cast<int>(x.cols()), factors_.data());
    for (Eigen::Index c = 0; c < x.cols(); ++c)
      x(r, c) = factors_[c] == 0 ? std::copysign(Real(0), x(r, c)) : x(r, c) * static_cast<Real>(factors_[c]);
  }
}

template <class Real>
void Numeric<Real>::exponential(Matrix& s, const Matrix& m, bool masked) {
  constexpr Real inf = std::numeric_limits<Real>::infinity();
  for (Eigen::Index r = 0; r < s.rows(); ++r) {
    auto row = s.row(r).array();
    if (m(r) == -inf)
      row.setConstant(Real(-0.0));
    else if (!masked)
      row = (row - m(r)).exp();
    else  // Eigen's packet exp(-infinity) is the smallest normal number, not 0
      row = (row == -inf).select(Real(-0.0), (row - m(r)).exp());
  }
}

template <class Real>
void Numeric<Real>::element_wise(const Operation& o) {
  constexpr Real inf = std::numeric_limits<Real>::infinity();
  Matrix& x = at(*o.out);
  switch (o.kind) {
    case Op::fill:
      x.setConstant(o.out->rows, o.out->cols, static_cast<Real>(o.scale));
      masked_[o.out->slot] = false;
      break;
    case Op::copy:
      x = at(*o.a);
      masked_[o.out->slot] = masked_[o.a->slot];
      break;
    case Op::convert:
      if (o.scale != 1) x *= static_cast<Real>(o.scale);
      round_all(o.out->dtype, x);
      break;
    case Op::exp: exponential(x, at(*o.a), masked_[o.out->slot]); break;
    case Op::exp_difference: {
      const auto a = at(*o.a).array(), b = at(*o.b).array();
      x = (b == -inf || a == -inf).select(Real(0), (a - b).exp()).matrix();
      break;
    }
    case Op::softmax_gradient: {
      const Matrix &probabilities = at(*o.a), &d = at(*o.b);
      masked_[o.out->slot] = masked_[o.a->slot];
      for (Eigen::Index r = 0; r < x.rows(); ++r) {
        auto row = x.row(r).array();
        const auto p = probabilities.row(r).array();
        if (masked_[o.a->slot])  // a hidden element's dP may be anything
          row = (p == Real(0)).select(p, p * (row - d(r)));
        else
          row = p * (row - d(r));
      }
      break;
    }
    case Op::multiply:
      if (o.a != nullptr)
        x.array() *= at(*o.a).array();
      else
        x *= static_cast<Real>(o.scale);
      break;
    case Op::add: x += at(*o.a); break;
    case Op::max: x = at(*o.a).cwiseMax(at(*o.b)); break;
    case Op::rotate:
      rotate_rows(x.data(), static_cast<int>(x.rows()), static_cast<int>(x.cols()), rotation_seed);
      break;
    case Op::abs_max: x.setConstant(1, 1, at(*o.a).cwiseAbs().maxCoeff()); break;
    case Op::quantise:
      if (at(*o.a)(0, 0) > 0) x *= Real(448) / at(*o.a)(0, 0);
      round_all(Dtype::e4m3, x);
      break;
    case Op::scale_all: x *= at(*o.a)(0, 0) * static_cast<Real>(o.scale); break;
    default: break;
  }
}

template <class Real>
void Numeric<Real>::row_wise(const Operation& o) {
  constexpr Real inf = std::numeric_limits<Real>::infinity();
  Matrix& x = at(*o.out);
  const Matrix& a = at(*o.a);
  switch (o.kind) {
    case Op::row_max:
      x.resize(a.rows(), 1);
      for (Eigen::Index r = 0; r < a.rows(); ++r) x(r) = a.row(r).maxCoeff();
      break;
    case Op::row_sum: x = a.rowwise().sum(); break;
    case Op::add_row_sum: x += a.rowwise().sum(); break;
    case Op::row_dot: x = (a.array() * at(*o.b).array()).rowwise().sum().matrix(); break;
    case Op::scale_rows:
      for (Eigen::Index r = 0; r < x.rows(); ++r) x.row(r) *= a(r);
      break;
    case Op::divide_rows:
      for (Eigen::Index r = 0; r < x.rows(); ++r) {
        if (a(r) == 0)  // keeps the sign, and so which elements are hidden
          x.row(r) = x.row(r).unaryExpr([](Real v) { return std::copysign(Real(0), v); });
        else
          x.row(r) *= 1 / a(r);
      }
      break;
    case Op::log_sum:
      for (Eigen::Index r = 0; r < x.rows(); ++r) x(r) = a(r) == 0 ? -inf : x(r) + std::log(a(r));
      break;
    default: break;
  }
}

template <class Real>
void Numeric<Real>::execute(const Operation& o) {
  switch (o.kind) {
    case Op::load:
      if (!o.async) transfer(o);  // into a ring: the values are fetched when taken
      break;
    case Op::take:
    case Op::store:
    case Op::reduce_add:
    case Op::reduce_max: transfer(o); break;
    case Op::matmul_nt:
    case Op::add_matmul:
    case Op::add_matmul_tn: matrix_product(o); break;
    case Op::mask: mask(o); break;
    case Op::dropout: dropout(o); break;
    case Op::row_max:
    case Op::row_sum:
    case Op::add_row_sum:
    case Op::row_dot:
    case Op::scale_rows:
    case Op::divide_rows:
    case Op::log_sum: row_wise(o); break;
    case Op::wait:
    case Op::count: break;
    default: element_wise(o); break;
  }
}

template class Numeric<float>;
template class Numeric<double>;

namespace {

using Inputs = std::vector<std::pair<Tensor, const std::vector<double>*>>;
using Outputs = std::vector<std::pair<Tensor, std::vector<double>*>>;

template <class Real>
void run(const std::vector<Program>& programs, const Problem& p, const Tiling& t, const Inputs& inputs,
         const Outputs& outputs) {
  Memory<Real> memory(p, t);
  for (const auto& [x, values] : inputs) {
    std::vector<double> rounded = *values;
    round_to(dtype_in_hbm(x, p), rounded.data(), rounded.size());
    memory.set(x, rounded.data());
  }
  Numeric<Real> numeric(p, memory);
  Hazard hazard(numeric);
  for (const Program& program : programs) program(hazard, Heads::all);
  for (const auto& [x, values] : outputs) {
    try {
      *values = memory.get(x);
    } catch (const MemoryError&) {
      if (x != Tensor::LSE) throw;  // standard and FA1 keep no LSE
    }
  }
}

void run_in_accumulator(const std::vector<Program>& programs, const Problem& p, const Tiling& t,
                        const Inputs& inputs, const Outputs& outputs) {
  if (p.dtype == Dtype::fp64)
    run<double>(programs, p, t, inputs, outputs);
  else
    run<float>(programs, p, t, inputs, outputs);
}

}  // namespace

ForwardResult run_forward(const Program& forward, const Problem& p, const Tiling& t,
                          const std::vector<double>& q, const std::vector<double>& k,
                          const std::vector<double>& v) {
  using enum Tensor;
  ForwardResult r;
  run_in_accumulator({forward}, p, t, {{Q, &q}, {K, &k}, {V, &v}}, {{O, &r.o}, {LSE, &r.lse}});
  return r;
}

BackwardResult run_backward(const Program& forward, const Program& backward, const Problem& p,
                            const Tiling& t, const std::vector<double>& q, const std::vector<double>& k,
                            const std::vector<double>& v, const std::vector<double>& d_o) {
  using enum Tensor;
  BackwardResult r;
  run_in_accumulator({forward, backward}, p, t, {{Q, &q}, {K, &k}, {V, &v}, {dO, &d_o}},
                     {{dQ, &r.dq}, {dK, &r.dk}, {dV, &r.dv}});
  return r;
}

ForwardResult run_forward(const Algorithm& a, const Problem& p, const Tiling& t, const std::vector<double>& q,
                          const std::vector<double>& k, const std::vector<double>& v) {
  return run_forward(program_of(a.forward, p, t), p, t, q, k, v);
}

BackwardResult run_backward(const Algorithm& a, const Problem& p, const Tiling& t,
                            const std::vector<double>& q, const std::vector<double>& k,
                            const std::vector<double>& v, const std::vector<double>& d_o) {
  return run_backward(program_of(a.forward, p, t), program_of(a.backward, p, t), p, t, q, k, v, d_o);
}

}  // namespace flashsim

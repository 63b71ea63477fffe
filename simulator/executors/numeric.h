// The numbers: executes operations on Eigen matrices.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "simulator/executors/memory.h"
#include "simulator/machine/program.h"
#include "simulator/schedules/schedules.h"

namespace flashsim {

/// Computes with `Real` (float, or double for fp64 problems) and rounds where hardware does: a store to the
/// dtype of its tensor in HBM, a matrix product its operands to the problem's dtype, and convert and
/// quantise.
///
/// Hidden elements of P are held as -0, which tells them from a visible element that underflowed: nothing
/// hidden contributes to a product, even where a hidden key or value is infinite or NaN.
template <class Real>
class Numeric final : public Executor {
 public:
  using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  Numeric(const Problem& p, Memory<Real>& memory) : p_(p), memory_(memory) {}
  void begin_block(const ThreadBlock& b) override { block_ = b; }
  void execute(const Operation& o) override;

  /// The numbers of a live tile.
  const Matrix& tile(const TileRef& t) const { return tiles_[t.slot]; }

 private:
  Matrix& at(const TileRef& t);
  int head_of(Tensor x, int query_head_in_group) const;
  void transfer(const Operation& o);
  void matrix_product(const Operation& o);
  void element_wise(const Operation& o);
  void row_wise(const Operation& o);
  void mask(const Operation& o);
  void dropout(const Operation& o);
  void exponential(Matrix& s, const Matrix& m, bool masked);
  const Matrix& operand(const TileRef& t, Matrix& rounded);

  const Problem& p_;
  Memory<Real>& memory_;
  ThreadBlock block_;
  std::deque<Matrix> tiles_;          // by slot
  std::vector<std::uint8_t> masked_;  // by slot: the mask has put -infinity or -0 into the tile
  Matrix rounded_a_, rounded_b_;
  Eigen::Array<Real, Eigen::Dynamic, 1> column_;
  std::vector<double> factors_;
};

extern template class Numeric<float>;
extern template class Numeric<double>;

/// The outputs of a forward pass as contiguous tensors; see Problem for the shapes.
struct ForwardResult {
  std::vector<double> o, lse;  ///< lse is empty where the schedule stores none
};
struct BackwardResult {
  std::vector<double> dq, dk, dv;
};

/// Runs a forward schedule on q, k, v (rounded to the dtype they have in HBM; exact where they already are).
/// Missing waits raise ScheduleError.
ForwardResult run_forward(const Program& forward, const Problem& p, const Tiling& t,
                          const std::vector<double>& q, const std::vector<double>& k,
                          const std::vector<double>& v);
ForwardResult run_forward(const Algorithm& a, const Problem& p, const Tiling& t, const std::vector<double>& q,
                          const std::vector<double>& k, const std::vector<double>& v);
/// Forward, then backward in the same memory, so that the backward pass reads what the forward pass left.
BackwardResult run_backward(const Program& forward, const Program& backward, const Problem& p,
                            const Tiling& t, const std::vector<double>& q, const std::vector<double>& k,
                            const std::vector<double>& v, const std::vector<double>& d_o);
BackwardResult run_backward(const Algorithm& a, const Problem& p, const Tiling& t,
                            const std::vector<double>& q, const std::vector<double>& k,
                            const std::vector<double>& v, const std::vector<double>& d_o);

}  // namespace flashsim

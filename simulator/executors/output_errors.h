// Compares what a schedule stores with the float64 oracle, as it goes.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu_reference/oracle.h"
#include "simulator/executors/recording.h"

namespace flashsim {

/// The errors of one output tensor over the heads of a group.
class OutputErrors {
 public:
  /// `oracle`: one matrix a head, heads counted from `first_head`.
  OutputErrors(Tensor tensor, int first_head, std::vector<MatrixD> oracle);

  Tensor tensor() const { return tensor_; }
  const MatrixD& oracle(int head) const { return oracle_[head - first_head_]; }

  /// In step `frame`, `row` of `head` got these values.
  template <class Row>
  void stored(std::size_t frame, int head, int row, const Row& values) {
    RowError& e = rows_[(head - first_head_) * oracle_[0].rows() + row];
    e = {static_cast<std::ptrdiff_t>(frame), 0, 0};
    for (int c = 0; c < values.size(); ++c) {
      const double error = difference(static_cast<double>(values(c)), oracle(head)(row, c));
      if (!(error <= e.error)) e.error = error, e.col = c;
    }
  }

  /// 0 for equal numbers and for two equal infinities; NaN where either is NaN.
  static double difference(double a, double b) { return a == b ? 0 : a > b ? a - b : b - a; }

  /// Fills outputs[index] of every frame: a row counts from its last store on.
  void finish(std::vector<Frame>& frames, std::size_t index) const;

 private:
  struct RowError {
    std::ptrdiff_t frame = -1;
    double error = 0;
    int col = 0;
  };
  Tensor tensor_;
  int first_head_;
  std::vector<MatrixD> oracle_;
  std::vector<RowError> rows_;  ///< head after head
};

/// The oracle's outputs for the heads of `r`: O, or dQ, dK and dV (summed over the heads that share a K/V
/// head).
std::vector<OutputErrors> oracle_outputs(const Recording& r, const std::vector<double>& q,
                                         const std::vector<double>& k, const std::vector<double>& v,
                                         const std::vector<double>* d_o);

}  // namespace flashsim

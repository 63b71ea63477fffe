// The tensors of a problem in simulated HBM, with their numbers.
#pragma once

#include <Eigen/Core>
#include <map>
#include <string>
#include <vector>

#include "simulator/machine/operation.h"

namespace flashsim {

/// A schedule read or wrote memory that is not there.
class MemoryError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Every tensor is one row-major matrix a head (and part): heads are counted over the batch, batch index *
/// heads_of(x) + head. Memory that a schedule stores to appears at its first store, filled with NaN: what is
/// never written shows.
template <class Real>
class Memory {
 public:
  using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  Memory(const Problem& p, const Tiling& t) : p_(p), t_(t) {}
  const Problem& problem() const { return p_; }

  /// Copies a contiguous tensor (batch, heads_of(x), rows, cols) of any real type in.
  template <class From>
  void set(Tensor x, const From* values) {
    for (int h = 0; h < p_.batch * heads_of(x, p_); ++h) {
      Matrix& to = at_for_store(x, h, 0);
      using Source = Eigen::Matrix<From, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
      to = Eigen::Map<const Source>(values + h * to.size(), to.rows(), to.cols()).template cast<Real>();
    }
  }
  /// The tensor in one piece, as set takes it. Throws MemoryError where nothing wrote it.
  std::vector<double> get(Tensor x) const {
    std::vector<double> all;
    for (int h = 0; h < p_.batch * heads_of(x, p_); ++h) {
      const Matrix& from = at_for_load(x, h, 0);
      for (Eigen::Index r = 0; r < from.rows(); ++r)
        for (Eigen::Index c = 0; c < from.cols(); ++c) all.push_back(static_cast<double>(from(r, c)));
    }
    return all;
  }

  const Matrix& at_for_load(Tensor x, int head, int part) const {
    const auto found = matrices_.find(key(x, head, part));
    if (found == matrices_.end())
      throw MemoryError("load: nothing has written " + std::string(name_of(x)) + " of head " +
                        std::to_string(head) + "; give it as an input or store it first");
    return found->second;
  }
  Matrix& at_for_store(Tensor x, int head, int part) {
    Matrix& m = matrices_[key(x, head, part)];
    if (m.size() == 0)
      m = Matrix::Constant(rows_of(x, p_, t_), cols_of(x, p_), std::numeric_limits<Real>::quiet_NaN());
    return m;
  }

 private:
  static std::uint64_t key(Tensor x, int head, int part) {
    return (static_cast<std::uint64_t>(x) << 56) | (static_cast<std::uint64_t>(part) << 32) |
           static_cast<std::uint32_t>(head);
  }
  const Problem& p_;
  const Tiling& t_;
  std::map<std::uint64_t, Matrix> matrices_;
};

}  // namespace flashsim

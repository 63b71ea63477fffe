// --q, --k, --v: real tensors from .npy files in the place of random ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu_reference/problem.h"
#include "simulator/cli/options.h"
#include "simulator/cli/output.h"

namespace flashsim::cli {

/// Contiguous tensors in Problem's shapes.
struct Tensors {
  std::vector<double> q, k, v;
  std::vector<double> d_o;  ///< the gradient of O; random unless given
};

class TensorOptions {
 public:
  void declare(Options& options);

  bool given() const {
    return !files_[0].empty() || !files_[1].empty() || !files_[2].empty() || !files_[3].empty();
  }
  /// The options as they were given: "--q q.npy --k k.npy --v v.npy".
  std::string command_line() const;
  /// Reads the files, if any were given, and puts their shape into `p`: (seqlen, head_dim), (heads, seqlen,
  /// head_dim) or (batch, heads, seqlen, head_dim). Otherwise fills tensors of p's shape with normal random
  /// numbers. `lengths_given`: the command line states lengths too, which files contradict. Messages go to
  /// `out`. Throws UsageError, NpyError and InputError (shapes that do not fit together; NaN or infinity,
  /// named with their place).
  Tensors load(Problem& p, std::uint64_t seed, bool lengths_given, const Output& out) const;

 private:
  std::string files_[4];  ///< q, k, v, d_o
};

}  // namespace flashsim::cli

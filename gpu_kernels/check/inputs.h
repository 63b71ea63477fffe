// The inputs of a case, rounded to its dtype, and what the oracle makes of them.
#pragma once

#include <vector>

#include "cpu_reference/componentwise.h"
#include "cpu_reference/oracle.h"
#include "gpu_kernels/check/cases.h"

namespace flashsim::gpu {

/// Values of a tensor as a device holds them.
std::vector<unsigned char> encode(Dtype dtype, const std::vector<double>& x);
/// The inverse; `n` elements.
std::vector<double> decode(Dtype dtype, const std::vector<unsigned char>& bytes, std::size_t n);

/// Every value is one of the problem's dtype, so the oracle and the kernels start from the same numbers.
struct Inputs {
  std::vector<double> q, k, v, d_o;
  std::vector<double> s;  ///< (batch, heads_q, seqlen_q, seqlen_k) for the softmax kernels; empty with a mask
};
Inputs inputs_of(const Case& c);

struct Reference {
  TensorForward forward;
  TensorGradients backward;
  ResultSizes sizes;
  std::vector<double> softmax;  ///< row by row, of Inputs::s
  double largest_score = 0;     ///< magnitude, in Inputs::s
};
Reference reference_of(const Problem& p, const Inputs& x);

}  // namespace flashsim::gpu

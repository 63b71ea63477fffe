// Softmax of one vector in the ways that lead to FlashAttention (Milakov and Gimelshein 2018, "Online
// normalizer calculation for softmax"), each counting the elements it reads from and writes to memory as it
// runs. The published counts per element: naive 3, safe 4, online 3; with the k largest wanted: safe 5,
// online 4, both fused 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace flashsim {

/// Accesses to vectors of the input's length. What fits registers (maxima, sums, the k largest) is not
/// memory.
struct Accesses {
  std::int64_t reads = 0, writes = 0;

  double per_element(std::size_t n) const {
    return static_cast<double>(reads + writes) / static_cast<double>(n);
  }
};

template <class Real>
struct Softmax {
  std::vector<Real> y;  ///< as long as x, sums to 1
  Accesses accesses;
};

// Templates are instantiated for float and double. A vector of -infinity throughout gives zeros (as a row of
// attention that sees nothing), except in the naive form; NaN anywhere gives NaN throughout.

/// exp(x) / sum exp(x): one pass for the sum, one for the result. Overflows where x > log(largest Real) (88.7
/// for float): the result is then NaN or 0.
template <class Real>
Softmax<Real> naive_softmax(const std::vector<Real>& x);

/// With the maximum subtracted: a pass for the maximum, one for the sum, one for the result (Algorithm 2).
template <class Real>
Softmax<Real> safe_softmax(const std::vector<Real>& x);

/// Maximum and sum in one pass: when a larger maximum turns up, the sum so far is rescaled (Algorithm 3).
template <class Real>
Softmax<Real> online_softmax(const std::vector<Real>& x);

/// The k largest of softmax(x), largest first; among equals the first index first.
template <class Real>
struct TopK {
  std::vector<Real> y;       ///< min(k, n) probabilities
  std::vector<int> indices;  ///< where they stand in x
  Accesses accesses;         ///< without the writes of `y` and `indices`
};

/// Softmax written to memory, then a pass over the result. Throws std::invalid_argument for k < 1.
template <class Real>
TopK<Real> safe_softmax_then_top_k(const std::vector<Real>& x, int k);
template <class Real>
TopK<Real> online_softmax_then_top_k(const std::vector<Real>& x, int k);

/// Everything in one pass, which keeps the k largest beside maximum and sum (Algorithm 4).
template <class Real>
TopK<Real> online_softmax_fused_top_k(const std::vector<Real>& x, int k);

// -------------------------------------------------------------------------------------------- chunk by chunk

/// What one chunk of scores does to the running maximum m and the running sum l: a row's life in
/// FlashAttention, whose chunks are the columns of a tile.
struct OnlineStep {
  int first = 0, count = 0;    ///< the chunk's scores
  double chunk_max = 0;        ///< of this chunk alone
  double m_before = 0, m = 0;  ///< running maximum; m_before is -infinity at first
  double rescale = 0;          ///< exp(m_before - m): what l_before is multiplied by; 0 at first
  double chunk_sum = 0;        ///< sum of exp(score - m) over the chunk
  double l_before = 0, l = 0;  ///< l = rescale * l_before + chunk_sum
};

struct ChunkedSoftmax {
  std::vector<OnlineStep> steps;
  std::vector<double> weights;  ///< exp(score - m) / l with the last m and l
};

/// Throws std::invalid_argument where there are no scores or chunk < 1. The last chunk may be shorter.
ChunkedSoftmax chunked_softmax(const std::vector<double>& scores, int chunk);

}  // namespace flashsim

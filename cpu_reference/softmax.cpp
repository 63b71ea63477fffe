#include "cpu_reference/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace flashsim {
namespace {

/// A vector in memory whose elements can only be had by read and write, which count.
template <class Vector>
class Counted {
 public:
  using Real = typename Vector::value_type;
  Counted(Vector& x, Accesses& accesses) : x_(x), accesses_(accesses) {}
  std::size_t size() const { return x_.size(); }
  Real read(std::size_t i) const {
    ++accesses_.reads;
    return x_[i];
  }
  void write(std::size_t i, Real value) const {
    ++accesses_.writes;
    x_[i] = value;
  }

 private:
  Vector& x_;
  Accesses& accesses_;
};

template <class Real>
constexpr Real kMinusInfinity = -std::numeric_limits<Real>::infinity();

/// exp(a - b), and 0 for a = -infinity also where b is.
template <class Real>
Real exp_difference(Real a, Real b) {
  return a == kMinusInfinity<Real> ? Real(0) : std::exp(a - b);
}

/// e / sum, and 0 where nothing was summed.
template <class Real>
Real share(Real e, Real sum) {
  return sum == 0 ? Real(0) : e / sum;
}

/// Running maximum and sum of exp(x - m).
template <class Real>
struct Normalizer {
  Real m = kMinusInfinity<Real>, l = 0;

  void add(Real x) {
    const Real m_new = std::max(m, x);
    l = l * exp_difference(m, m_new) + exp_difference(x, m_new);
    m = m_new;
  }
  Real weight(Real x) const { return share(exp_difference(x, m), l); }
};

/// The k largest values so far with their indices, in registers.
template <class Real>
class Largest {
 public:
  explicit Largest(int k) : k_(static_cast<std::size_t>(k)) {
    if (k < 1) throw std::invalid_argument("k is " + std::to_string(k) + "; it must be at least 1");
  }
  void offer(Real value, std::size_t index) {
    auto at = values.end();
    while (at != values.begin() && !(value <= *(at - 1))) --at;  // stays behind its equals; NaN goes first
    indices.insert(indices.begin() + (at - values.begin()), static_cast<int>(index));
    values.insert(at, value);
    if (values.size() > k_) {
      values.pop_back();
      indices.pop_back();
    }
  }
  std::vector<Real> values;
  std::vector<int> indices;

 private:
  std::size_t k_;
};

template <class Real>
TopK<Real> then_top_k(Softmax<Real> softmax, int k) {
  Largest<Real> largest(k);
  const Counted y(softmax.y, softmax.accesses);
  for (std::size_t i = 0; i < y.size(); ++i) largest.offer(y.read(i), i);
  return {std::move(largest.values), std::move(largest.indices), softmax.accesses};
}

}  // namespace

template <class Real>
Softmax<Real> naive_softmax(const std::vector<Real>& input) {
  Softmax<Real> r{std::vector<Real>(input.size()), {}};
  const Counted x(input, r.accesses);
  const Counted y(r.y, r.accesses);
  Real l = 0;
  for (std::size_t i = 0; i < x.size(); ++i) l += std::exp(x.read(i));
  for (std::size_t i = 0; i < x.size(); ++i) y.write(i, std::exp(x.read(i)) / l);
  return r;
}

template <class Real>
Softmax<Real> safe_softmax(const std::vector<Real>& input) {
  Softmax<Real> r{std::vector<Real>(input.size()), {}};
  const Counted x(input, r.accesses);
  const Counted y(r.y, r.accesses);
  Real m = kMinusInfinity<Real>, l = 0;
  for (std::size_t i = 0; i < x.size(); ++i) m = std::max(m, x.read(i));
  for (std::size_t i = 0; i < x.size(); ++i) l += exp_difference(x.read(i), m);
  for (std::size_t i = 0; i < x.size(); ++i) y.write(i, share(exp_difference(x.read(i), m), l));
  return r;
}

template <class Real>
Softmax<Real> online_softmax(const std::vector<Real>& input) {
  Softmax<Real> r{std::vector<Real>(input.size()), {}};
  const Counted x(input, r.accesses);
  const Counted y(r.y, r.accesses);
  Normalizer<Real> n;
  for (std::size_t i = 0; i < x.size(); ++i) n.add(x.read(i));
  for (std::size_t i = 0; i < x.size(); ++i) y.write(i, n.weight(x.read(i)));
  return r;
}

template <class Real>
TopK<Real> safe_softmax_then_top_k(const std::vector<Real>& x, int k) {
  return then_top_k(safe_softmax(x), k);
}

template <class Real>
TopK<Real> online_softmax_then_top_k(const std::vector<Real>& x, int k) {
  return then_top_k(online_softmax(x), k);
}

template <class Real>
TopK<Real> online_softmax_fused_top_k(const std::vector<Real>& input, int k) {
  TopK<Real> r;
  const Counted x(input, r.accesses);
  Normalizer<Real> n;
  Largest<Real> largest(k);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Real value = x.read(i);
    n.add(value);
    largest.offer(value, i);
  }
  for (const Real value : largest.values) r.y.push_back(n.weight(value));
  r.indices = std::move(largest.indices);
  return r;
}

#define FLASHSIM_INSTANTIATE(Real)                                              \
  template Softmax<Real> naive_softmax(const std::vector<Real>&);               \
  template Softmax<Real> safe_softmax(const std::vector<Real>&);                \
  template Softmax<Real> online_softmax(const std::vector<Real>&);              \
  template TopK<Real> safe_softmax_then_top_k(const std::vector<Real>&, int);   \
  template TopK<Real> online_softmax_then_top_k(const std::vector<Real>&, int); \
  template TopK<Real> online_softmax_fused_top_k(const std::vector<Real>&, int)
FLASHSIM_INSTANTIATE(float);
FLASHSIM_INSTANTIATE(double);
#undef FLASHSIM_INSTANTIATE

ChunkedSoftmax chunked_softmax(const std::vector<double>& scores, int chunk) {
  if (scores.empty()) throw std::invalid_argument("there are no scores; give at least one");
  if (chunk < 1) throw std::invalid_argument("chunk is " + std::to_string(chunk) + "; it must be at least 1");
  ChunkedSoftmax r;
  double m = kMinusInfinity<double>, l = 0;
  const int n = static_cast<int>(scores.size());
  for (int first = 0; first < n; first += std::min(chunk, n - first)) {
    OnlineStep s;
    s.first = first;
    s.count = std::min(chunk, n - first);
    const auto begin = scores.begin() + first, end = begin + s.count;
    s.chunk_max = *std::max_element(begin, end);
    s.m_before = m;
    s.m = std::max(m, s.chunk_max);
    s.rescale = exp_difference(m, s.m);
    for (auto x = begin; x != end; ++x) s.chunk_sum += exp_difference(*x, s.m);
    s.l_before = l;
    s.l = s.rescale * l + s.chunk_sum;
    m = s.m;
    l = s.l;
    r.steps.push_back(s);
  }
  for (const double x : scores) r.weights.push_back(share(exp_difference(x, m), l));
  return r;
}

}  // namespace flashsim

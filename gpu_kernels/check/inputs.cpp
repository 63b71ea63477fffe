#include "gpu_kernels/check/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu_reference/random.h"
#include "cpu_reference/rounding.h"

namespace flashsim::gpu {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint32_t score_tensor = 17;  ///< a random stream of its own

template <class T>
std::vector<unsigned char> bytes_of_all(const std::vector<double>& x, T (*convert)(double)) {
  std::vector<unsigned char> bytes(x.size() * sizeof(T));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T value = convert(x[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <class T, class Convert>
std::vector<double> values_of(const std::vector<unsigned char>& bytes, std::size_t n, Convert convert) {
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    T code;
    std::memcpy(&code, bytes.data() + i * sizeof(T), sizeof(T));
    x[i] = convert(code);
  }
  return x;
}

/// Row `row` of head `head` of a (heads, rows, cols) tensor becomes `value`.
void fill_row(std::vector<double>& x, int head, int rows, int cols, int row, double value) {
  const auto first = x.begin() + (std::int64_t{head} * rows + row) * cols;
  std::fill(first, first + cols, value);
}

void apply(const Case& c, Inputs& x) {
  const Problem& p = c.problem;
  const int d = p.head_dim;
  switch (c.fill) {
    case Fill::normal:
    case Fill::outliers: break;
    case Fill::constant_scores: std::fill(x.k.begin(), x.k.end(), 1.0); break;
    case Fill::growing_maximum:
      for (std::size_t i = 0; i < x.k.size(); ++i) {
        const auto key = static_cast<double>(static_cast<std::int64_t>(i) / d % p.seqlen_k);
        x.k[i] = 0.1 * x.k[i] + 6 * key / p.seqlen_k;
      }
      for (double& e : x.q) e = 0.1 * e + 1;
      break;
    case Fill::large_logits:
      for (double& e : x.q) e *= 3000;
      break;
    case Fill::nonfinite_v:
    case Fill::nonfinite:
      for (int kv = 0; kv < p.batch * p.heads_kv; ++kv) {
        fill_row(x.v, kv, p.seqlen_k, d, p.seqlen_k - 1, kv % 2 == 0 ? infinity : nan);
        if (c.fill == Fill::nonfinite) fill_row(x.k, kv, p.seqlen_k, d, p.seqlen_k - 1, nan);
      }
      if (c.fill == Fill::nonfinite)
        for (int head = 0; head < p.batch * p.heads_q; ++head) {
          fill_row(x.d_o, head, p.seqlen_q, d, 0, nan);
          if (head % 2 == 1) fill_row(x.q, head, p.seqlen_q, d, 0, infinity);
        }
      break;
  }
}

}  // namespace

std::vector<unsigned char> encode(Dtype dtype, const std::vector<double>& x) {
  if (dtype == Dtype::fp16) return bytes_of_all<std::uint16_t>(x, encode_fp16);
  if (dtype == Dtype::bf16) return bytes_of_all<std::uint16_t>(x, encode_bf16);
  return bytes_of_all<float>(x, [](double e) { return static_cast<float>(e); });
}

std::vector<double> decode(Dtype dtype, const std::vector<unsigned char>& bytes, std::size_t n) {
  if (dtype == Dtype::fp16) return values_of<std::uint16_t>(bytes, n, decode_fp16);
  if (dtype == Dtype::bf16) return values_of<std::uint16_t>(bytes, n, decode_bf16);
  return values_of<float>(bytes, n, [](float e) { return static_cast<double>(e); });
}

Inputs inputs_of(const Case& c) {
  const Problem& p = c.problem;
  const auto size = [&p](int heads, int rows, int cols) {
    return static_cast<std::size_t>(elements(p, heads, rows, cols));
  };
  const Distribution d = c.fill == Fill::outliers ? Distribution::outliers : Distribution::normal;
  Inputs x;
  x.q = random_tensor(d, c.seed, tensor_id::q, size(p.heads_q, p.seqlen_q, p.head_dim));
  x.k = random_tensor(d, c.seed, tensor_id::k, size(p.heads_kv, p.seqlen_k, p.head_dim));
  x.v = random_tensor(d, c.seed, tensor_id::v, size(p.heads_kv, p.seqlen_k, p.head_dim));
  x.d_o = random_tensor(d, c.seed, tensor_id::d_o, size(p.heads_q, p.seqlen_q, p.head_dim));
  if (!p.masked() && p.dropout_p == 0)
    x.s = random_tensor(d, c.seed, score_tensor, size(p.heads_q, p.seqlen_q, p.seqlen_k));
  apply(c, x);
  for (std::vector<double>* tensor : {&x.q, &x.k, &x.v, &x.d_o, &x.s})
    round_to(p.dtype, tensor->data(), tensor->size());
  return x;
}

Reference reference_of(const Problem& p, const Inputs& x) {
  Reference r;
  r.forward = oracle_forward(p, x.q, x.k, x.v);
  r.backward = oracle_backward(p, x.q, x.k, x.v, x.d_o);
  r.sizes = result_sizes(p, x.q, x.k, x.v, x.d_o);
  r.softmax.resize(x.s.size());
  const auto n = static_cast<std::size_t>(p.seqlen_k);
  for (std::size_t row = 0; row < x.s.size(); row += n) {
    const double* const s = x.s.data() + row;
    const double maximum = *std::max_element(s, s + n);
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) r.largest_score = std::max(r.largest_score, std::abs(s[j]));
    for (std::size_t j = 0; j < n; ++j) sum += std::exp(s[j] - maximum);
    for (std::size_t j = 0; j < n; ++j) r.softmax[row + j] = std::exp(s[j] - maximum) / sum;
  }
  return r;
}

}  // namespace flashsim::gpu

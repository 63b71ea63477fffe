// What fa3's stale maximum costs in e4m3, number by number on the CPU: fa3/softmax.cuh and repair.cuh's
// rules, applied to one head as fp8_quantise.cu quantises it. Sums are exact; what is left of a kernel's
// error is rounding.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cpu_reference/hadamard.h"
#include "cpu_reference/oracle.h"
#include "cpu_reference/random.h"
#include "cpu_reference/rounding.h"
#include "gpu_kernels/fa3/instances.h"

using namespace flashsim;
using gpu::fa3::kOnlineHeadroom;
using gpu::fa3::kStaleHeadroom;

namespace {

constexpr int d = 128, queries = 64, block = 128;
constexpr int warp_rows = 16;    // share a vote
constexpr double largest = 448;  // of e4m3

double rounded(double x) {
  round_to(Dtype::e4m3, &x, 1);
  return x;
}

/// Rows of 128 get one scale, their largest magnitude becomes 448; x is left in e4m3.
std::vector<double> quantise(std::vector<double>& x, int rows_a_scale) {
  std::vector<double> scales;
  const std::size_t step = std::size_t(rows_a_scale) * d;
  for (std::size_t from = 0; from < x.size(); from += step) {
    const std::size_t to = std::min(from + step, x.size());
    double top = 0;
    for (std::size_t i = from; i < to; ++i) top = std::max(top, std::abs(x[i]));
    scales.push_back(top / largest);
    for (std::size_t i = from; i < to; ++i) x[i] = rounded(x[i] / scales.back());
  }
  return scales;
}

/// One head: its exact O, and in e4m3 its scores (log2 domain) and V.
struct Head {
  int keys;
  std::vector<double> exact, scores, v;
  double v_scale;

  Head(int n, Distribution distribution, double stretch, std::uint64_t seed) : keys(n) {
    Problem p;
    p.seqlen_q = queries, p.seqlen_k = n, p.head_dim = d;
    const auto make = [&](std::uint32_t id, int rows, double factor) {
      std::vector<double> x = random_tensor(distribution, seed, id, std::size_t(rows) * d);
      for (double& e : x) e *= factor;
      round_to(Dtype::fp16, x.data(), x.size());
      return x;
    };
    std::vector<double> q = make(tensor_id::q, queries, stretch), k = make(tensor_id::k, n, 1);
    v = make(tensor_id::v, n, 1);
    p.dtype = Dtype::fp64;
    exact = oracle_forward(p, q, k, v).o;
    rotate_rows(q.data(), queries, d, seed);
    rotate_rows(k.data(), n, d, seed);
    const std::vector<double> q_scale = quantise(q, block), k_scale = quantise(k, block);
    v_scale = quantise(v, n)[0];
    scores.resize(std::size_t(queries) * n);
    for (int i = 0; i < queries; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int c = 0; c < d; ++c) sum += q[i * d + c] * k[j * d + c];
        scores[std::size_t(i) * n + j] =
            sum * scale_of(p) * std::log2(std::exp(1.0)) * q_scale[i / block] * k_scale[j / block];
      }
  }
};

struct Row {
  double reference = -INFINITY, sum = 0, factor = 1;
  std::vector<double> o = std::vector<double>(d), p = std::vector<double>(block);

  /// Raises the reference to the largest of a block's scores.
  void update_maximum(const double* score, int headroom) {
    const double top = *std::max_element(score, score + block) - headroom;
    const double old = reference;
    reference = std::max(reference, top);
    factor = std::exp2(old - reference);
  }
  void exponentials(const double* score) {
    for (int j = 0; j < block; ++j) p[j] = std::exp2(score[j] - reference);
  }
  /// Raises the reference so that the largest P, if it had grown, is 2^kStaleHeadroom.
  void repair() {
    const double growth = std::max(0.0, std::log2(*std::max_element(p.begin(), p.end())) - kStaleHeadroom);
    reference += growth;
    factor = std::exp2(-growth);
    for (double& e : p) e *= factor;
  }
  void add(const double* v) {
    sum *= factor;
    for (double& e : o) e *= factor;
    factor = 1;
    for (int j = 0; j < block; ++j) {
      sum += p[j];
      const double p8 = rounded(p[j]);
      for (int c = 0; c < d; ++c) o[c] += p8 * v[j * d + c];
    }
  }
};

struct Outcome {
  double rmse, repaired;  ///< repaired: share of a warp's blocks
};

Outcome attention(const Head& head, bool stale) {
  double squares = 0;
  int blocks = 0, repairs = 0;
  for (int first = 0; first < queries; first += warp_rows) {
    std::vector<Row> rows(warp_rows);
    for (int b = head.keys / block - 1; b >= 0; --b) {
      const auto score = [&](int r) { return &head.scores[std::size_t(first + r) * head.keys + b * block]; };
      const bool online = !stale || b == head.keys / block - 1;
      bool fits = true;
      for (int r = 0; r < warp_rows; ++r) {
        if (online) rows[r].update_maximum(score(r), stale ? kStaleHeadroom : kOnlineHeadroom);
        rows[r].exponentials(score(r));
        for (const double p : rows[r].p) fits = fits && rounded(p) < largest;
      }
      if (!online) ++blocks, repairs += !fits;
      for (Row& r : rows) {
        if (!online && !fits) r.repair();
        r.add(&head.v[std::size_t(b) * block * d]);
      }
    }
    for (int r = 0; r < warp_rows; ++r)
      for (int c = 0; c < d; ++c) {
        const double o = rows[r].o[c] / rows[r].sum * head.v_scale;
        squares += std::pow(o - head.exact[(first + r) * d + c], 2);
      }
  }
  return {std::sqrt(squares / (queries * d)), blocks == 0 ? 0 : double(repairs) / blocks};
}

}  // namespace

TEST_CASE("e4m3: a stale maximum loses nearly nothing against the maximum of every block") {
  // Of O's error, roundings of Q, K, V and P have a part each. Online softmax holds one P of a row exactly,
  // the largest, since that is 2^8; if it were the only one, all of P's part, sqrt(4 / 3).
  const double allowed = std::sqrt(4.0 / 3);
  for (const Distribution distribution : {Distribution::normal, Distribution::outliers})
    for (const double stretch : {1.0, 4.0})
      for (const int keys : {512, 4096}) {
        const Head head(keys, distribution, stretch, 11);
        const Outcome online = attention(head, false), stale = attention(head, true);
        const std::string name = distribution == Distribution::normal ? "normal" : "outliers";
        MESSAGE(name, ", Q x ", stretch, ", ", keys, " keys: RMSE online ", online.rmse, ", stale ",
                stale.rmse, ", blocks repaired ", stale.repaired);
        CHECK(online.rmse > 0);
        CHECK(stale.rmse <= allowed * online.rmse);
        if (distribution == Distribution::normal && stretch == 1) CHECK(stale.repaired <= 0.02);
        if (stretch == 4) CHECK(stale.repaired > 0);  // repairs are part of what is compared
      }
}

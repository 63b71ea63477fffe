#include "cpu_reference/hadamard.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "cpu_reference/random.h"
#include "cpu_reference/rounding.h"

using namespace flashsim;

namespace {

MatrixD normal_rows(int rows, int cols, std::uint32_t tensor) {
  MatrixD x(rows, cols);
  fill_random(Distribution::normal, 1, tensor, 0, x.data(), static_cast<std::size_t>(x.size()));
  return x;
}

/// log2(n) butterflies and the norm: each entry of a rotated unit vector carries that many roundings.
double tolerance(int n, double u) { return (std::log2(n) + 2) * u; }

}  // namespace

TEST_CASE("unit vectors become the columns of the Sylvester matrix") {
  for (const int n : {1, 2, 8, 64, 256}) {
    for (int j = 0; j < n; ++j) {
      std::vector<double> x(static_cast<std::size_t>(n));
      std::vector<float> f(static_cast<std::size_t>(n));
      x[j] = f[j] = 1;
      hadamard_transform(x.data(), n);
      hadamard_transform(f.data(), n);
      int wrong = 0;
      for (int i = 0; i < n; ++i) {
        const bool odd = std::popcount(static_cast<unsigned>(i & j)) % 2;
        const double expected = (odd ? -1 : 1) / std::sqrt(static_cast<double>(n));
        wrong += !(std::abs(x[i] - expected) <= 0x1p-53);
        wrong += !(std::abs(f[i] - expected) <= 0x1p-24);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the rotation is orthogonal, signs included") {
  for (const int n : {2, 16, 128}) {
    const MatrixD r = rotated(MatrixD::Identity(n, n), 9);
    CHECK(((r * r.transpose() - MatrixD::Identity(n, n)).cwiseAbs().maxCoeff() <= n * tolerance(n, 0x1p-52)));
  }
}

TEST_CASE("twice is the identity") {
  std::vector<double> x = random_tensor(Distribution::normal, 1, 0, 128), y = x;
  hadamard_transform(y.data(), 128);
  CHECK(x != y);
  hadamard_transform(y.data(), 128);
  for (int i = 0; i < 128; ++i) CHECK(std::abs(x[i] - y[i]) <= 128 * tolerance(128, 0x1p-53));
}

TEST_CASE("Q K^T stays as it was, also where rows are padded") {
  for (const int d : {1, 3, 64, 80, 96, 128}) {
    CAPTURE(d);
    const MatrixD q = normal_rows(5, d, tensor_id::q), k = normal_rows(7, d, tensor_id::k);
    const MatrixD rq = rotated(q, 3), rk = rotated(k, 3);
    CHECK(rq.cols() == hadamard_dim(d));
    const int n = hadamard_dim(d);
    const double bound = 2 * n * tolerance(n, 0x1p-52) * q.rowwise().norm().maxCoeff();
    CHECK(((rq * rk.transpose() - q * k.transpose()).cwiseAbs().maxCoeff() <=
           bound * k.rowwise().norm().maxCoeff()));
    if (d > 1)
      CHECK_FALSE((rotated(k, 4) - rk).cwiseAbs().maxCoeff() <= 0.1);  // another seed, another rotation
  }
  CHECK(hadamard_dim(1) == 1);
  CHECK(hadamard_dim(65) == 128);
  CHECK(hadamard_dim(128) == 128);
}

TEST_CASE("floats in place give the doubles' values") {
  const MatrixD x = normal_rows(6, 64, tensor_id::v), expected = rotated(x, 5);
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> f = x.cast<float>();
  rotate_rows(f.data(), 6, 64, 5);
  CHECK(((f.cast<double>() - expected).cwiseAbs().maxCoeff() <=
         tolerance(64, 0x1p-24) * x.rowwise().lpNorm<1>().maxCoeff()));
}

TEST_CASE("outliers are spread, so that rounding to fp8 hurts less") {
  // e4m3 keeps four significant bits of any size, so an outlier in Q alone costs no more than other entries.
  // Where Q and K are large in the same column, as trained models are, that column's product carries the
  // error of the whole score; after the rotation no column stands out.
  const int n = 128, d = 128;
  const auto quantized = [](MatrixD x) {
    const double scale = x.cwiseAbs().maxCoeff() / largest_finite(Dtype::e4m3);
    x /= scale;
    round_to(Dtype::e4m3, x.data(), static_cast<std::size_t>(x.size()));
    return MatrixD(x * scale);
  };
  MatrixD q = normal_rows(n, d, tensor_id::q), k = normal_rows(n, d, tensor_id::k);
  q.col(5) *= 30;
  k.col(5) *= 30;
  const MatrixD s = q * k.transpose();
  const double plain = (quantized(q) * quantized(k).transpose() - s).norm();
  const double spread = (quantized(rotated(q, 1)) * quantized(rotated(k, 1)).transpose() - s).norm();
  // Entry errors are a share of the entry, so the squared error of a score goes with sum_c q_c^2 k_c^2: on
  // average 30^4 + 127 here, and 128 ((30^2 + 127) / 128)^2 when spread. The norms' ratio is the root, 9.9.
  CHECK(spread * 5 < plain);
  CHECK(rotated(q, 1).cwiseAbs().maxCoeff() < q.cwiseAbs().maxCoeff() / 5);
}

TEST_CASE("other lengths are refused") {
  double x[3] = {1, 2, 3};
  CHECK_THROWS_AS(hadamard_transform(x, 3), std::invalid_argument);
  CHECK_THROWS_AS(hadamard_transform(x, 0), std::invalid_argument);
  CHECK_THROWS_AS(rotate_rows(x, 1, 3, 0), std::invalid_argument);
}

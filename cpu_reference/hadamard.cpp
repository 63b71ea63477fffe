#include "cpu_reference/hadamard.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu_reference/random.h"

namespace flashsim {
namespace {

void require_power_of_two(int n) {
  if (n >= 1 && (n & (n - 1)) == 0) return;
  throw std::invalid_argument("a Hadamard transform of length " + std::to_string(n) +
                              " was asked for; the length must be a power of two (pad with zeros)");
}

template <class Real>
void transform(Real* x, int n) {
  require_power_of_two(n);
  for (int half = 1; half < n; half *= 2)
    for (int block = 0; block < n; block += 2 * half)
      for (int i = block; i < block + half; ++i) {
        const Real a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
  const Real norm = static_cast<Real>(1 / std::sqrt(static_cast<double>(n)));
  for (int i = 0; i < n; ++i) x[i] *= norm;
}

template <class Real>
void rotate(Real* x, int rows, int n, std::uint64_t seed) {
  require_power_of_two(n);
  std::vector<Real> signs(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) signs[i] = static_cast<Real>(random_sign(seed, static_cast<std::uint64_t>(i)));
  for (int r = 0; r < rows; ++r, x += n) {
    for (int i = 0; i < n; ++i) x[i] *= signs[i];
    transform(x, n);
  }
}

}  // namespace

int hadamard_dim(int d) {
  int n = 1;
  while (n < d) n *= 2;
  return n;
}

void hadamard_transform(float* x, int n) { transform(x, n); }
void hadamard_transform(double* x, int n) { transform(x, n); }

void rotate_rows(float* x, int rows, int n, std::uint64_t seed) { rotate(x, rows, n, seed); }
void rotate_rows(double* x, int rows, int n, std::uint64_t seed) { rotate(x, rows, n, seed); }

MatrixD rotated(const MatrixView& x, std::uint64_t seed) {
  const int n = hadamard_dim(static_cast<int>(x.cols()));
  MatrixD r = MatrixD::Zero(x.rows(), n);
  r.leftCols(x.cols()) = x;
  rotate_rows(r.data(), static_cast<int>(r.rows()), n, seed);
  return r;
}

}  // namespace flashsim

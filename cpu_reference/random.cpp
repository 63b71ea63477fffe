// Compiled without contraction of a * b + c (see CMakeLists.txt): with +, -, *, / and sqrt alone, which IEEE
// 754 rounds correctly, the results are then the same everywhere.
#include "cpu_reference/random.h"

#include <cmath>
#include <cstring>

#include "cpu_reference/philox.h"

namespace flashsim {
namespace {

// The fourth counter word keeps these streams apart from each other and from the dropout mask, which has 0.
enum class Stream : std::uint32_t { value = 1, outlier_size = 2, outlier_choice = 3, sign = 4 };

constexpr double kOutlierChance = 0.001, kOutlierStddev = 10;

PhiloxWords words_at(Stream stream, std::uint64_t seed, std::uint32_t tensor, std::uint64_t index) {
  return philox4x32_10(seed, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                       tensor, static_cast<std::uint32_t>(stream));
}

std::uint64_t join(std::uint32_t high, std::uint32_t low) { return std::uint64_t{high} << 32 | low; }

/// In (0, 1), never an end: 52 bits and a half, exact in a double.
double open_unit(std::uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }

/// Natural logarithm of a positive normal number by log x = e log 2 + 2 artanh((f - 1) / (f + 1)) with x = f
/// 2^e and f in [sqrt(1/2), sqrt(2)], so that the artanh series has z^2 < 0.0295 and 11 terms reach 1e-17.
double portable_log(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  int e = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
  double f;
  std::memcpy(&f, &bits, sizeof f);
  if (f > 1.4142135623730951) {
    f *= 0.5;
    e += 1;
  }
  const double z = (f - 1) / (f + 1), z2 = z * z;
  double series = 0;
  for (int k = 10; k >= 0; --k) series = series * z2 + 1.0 / (2 * k + 1);
  return e * 0.6931471805599453 + 2 * z * series;
}

struct Direction {
  double cos, sin;
};

/// Cosine and sine of 2 pi (bits / 2^64): the upper three bits choose the eighth of the circle, and Taylor
/// series do the rest on [0, pi / 4].
Direction portable_direction(std::uint64_t bits) {
  const auto eighth = static_cast<unsigned>(bits >> 61);
  double t = static_cast<double>((bits << 3) >> 12) * 0x1p-52;  // position within the eighth, [0, 1)
  if (eighth & 1) t = 1 - t;                                    // odd eighths run backwards
  const double a = t * 0.7853981633974483, a2 = a * a;
  double c = 0, s = 0;
  for (int k = 9; k >= 1; --k) {
    c = (c + 1) * -a2 / ((2 * k) * (2 * k - 1));
    s = (s + 1) * -a2 / ((2 * k + 1) * (2 * k));
  }
  c = 1 + c;
  s = a + a * s;
  switch ((eighth + 1) / 2 % 4) {  // the axis that this eighth touches
    case 0: return {c, eighth & 1 ? -s : s};
    case 1: return {eighth & 1 ? s : -s, c};
    case 2: return {-c, eighth & 1 ? s : -s};
    default: return {eighth & 1 ? -s : s, -c};
  }
}

/// Box and Muller 1958: two uniform numbers give two independent normal ones; elements 2 i and 2 i + 1 share
/// a Philox call.
double normal(Stream stream, std::uint64_t seed, std::uint32_t tensor, std::uint64_t index) {
  const PhiloxWords w = words_at(stream, seed, tensor, index / 2);
  const double radius = std::sqrt(-2 * portable_log(open_unit(join(w.word[0], w.word[1]))));
  const Direction at = portable_direction(join(w.word[2], w.word[3]));
  return radius * (index % 2 == 0 ? at.cos : at.sin);
}

template <class Real>
void fill(Distribution d, std::uint64_t seed, std::uint32_t tensor, std::uint64_t first, Real* out,
          std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<Real>(random_value(d, seed, tensor, first + i));
}

}  // namespace

double random_value(Distribution d, std::uint64_t seed, std::uint32_t tensor, std::uint64_t index) {
  if (d == Distribution::uniform) {
    const PhiloxWords w = words_at(Stream::value, seed, tensor, index / 2);
    const int pair = static_cast<int>(index % 2) * 2;
    return static_cast<double>(join(w.word[pair], w.word[pair + 1]) >> 11) * 0x1p-52 - 1;
  }
  double x = normal(Stream::value, seed, tensor, index);
  if (d == Distribution::outliers) {
    const PhiloxWords w = words_at(Stream::outlier_choice, seed, tensor, index);
    if (open_unit(join(w.word[0], w.word[1])) < kOutlierChance)
      x += kOutlierStddev * normal(Stream::outlier_size, seed, tensor, index);
  }
  return x;
}

void fill_random(Distribution d, std::uint64_t seed, std::uint32_t tensor, std::uint64_t first, double* out,
                 std::size_t n) {
  fill(d, seed, tensor, first, out, n);
}
void fill_random(Distribution d, std::uint64_t seed, std::uint32_t tensor, std::uint64_t first, float* out,
                 std::size_t n) {
  fill(d, seed, tensor, first, out, n);
}

std::vector<double> random_tensor(Distribution d, std::uint64_t seed, std::uint32_t tensor, std::size_t n) {
  std::vector<double> x(n);
  fill_random(d, seed, tensor, 0, x.data(), n);
  return x;
}

double random_sign(std::uint64_t seed, std::uint64_t index) {
  const PhiloxWords w = words_at(Stream::sign, seed, 0, index / 4);
  return w.word[index % 4] >> 31 ? -1.0 : 1.0;
}

}  // namespace flashsim

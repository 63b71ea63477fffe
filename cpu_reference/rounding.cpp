#include "cpu_reference/rounding.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace flashsim {
namespace {

template <class To, class From>
To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &x, sizeof(To));
  return to;
}

/// A binary format by its stored mantissa bits, its exponent bits and the exponent of its smallest normal
/// number, 2^min_exponent.
struct Format {
  int mantissa_bits, exponent_bits, min_exponent;
};
constexpr Format format_of(Dtype t) {
  return t == Dtype::fp16 ? Format{10, 5, -14} : t == Dtype::bf16 ? Format{7, 8, -126} : Format{3, 4, -6};
}

template <class Real>
constexpr int kMantissaBits = std::numeric_limits<Real>::digits - 1;

/// 2^exponent, where that is a normal Real.
template <class Real>
constexpr Real power_of_two(int exponent) {
  Real r = 1;
  for (int i = 0; i < exponent; ++i) r *= 2;
  for (int i = 0; i > exponent; --i) r /= 2;
  return r;
}

/// Rounds to the nearest value of dtype t, ties to even; `beyond` (or -beyond) where that would pass the
/// largest finite value. All ways are computed and selected from, so that loops over this vectorise.
template <Dtype t, class Real>
inline Real nearest(Real x, Real beyond) {
  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Real) - 1);
  constexpr Bits kQuiet = Bits{1} << (kMantissaBits<Real> - 1);
  constexpr Format f = format_of(t);
  constexpr int kDroppedBits = kMantissaBits<Real> - f.mantissa_bits;
  constexpr Bits kDropped = (Bits{1} << kDroppedBits) - 1;
  constexpr Real kSmallestNormal = power_of_two<Real>(f.min_exponent);
  // Next to this number the values of Real are as far apart as the subnormals of t.
  constexpr Real kAnchor = power_of_two<Real>(f.min_exponent - f.mantissa_bits + kMantissaBits<Real>);

  const Bits sign = bits_as<Bits>(x) & kSign, magnitude = bits_as<Bits>(x) & ~kSign;
  const Real a = bits_as<Real>(magnitude);
  // Normal numbers: add just under half of the last kept place, plus 1 if that place is odd, and cut off. A
  // carry into the exponent is what rounding up to the next power of two needs.
  const Bits odd = (magnitude >> kDroppedBits) & 1;
  const Real normal = bits_as<Real>((magnitude + (kDropped >> 1) + odd) & ~kDropped);
  // Subnormal numbers: the processor's own addition rounds to the places next to the anchor.
  const Real subnormal = (a + kAnchor) - kAnchor;
  const Real nan = bits_as<Real>((magnitude | kQuiet) & ~kDropped);

  Real r = a < kSmallestNormal ? subnormal : normal;
  r = r > static_cast<Real>(largest_finite(t)) ? beyond : r;
  r = a != a ? nan : r;
  return bits_as<Real>(bits_as<Bits>(r) | sign);
}

/// What stands for values too large for t.
template <Dtype t, class Real>
constexpr Real beyond_largest(Overflow overflow) {
  if (t != Dtype::e4m3) return std::numeric_limits<Real>::infinity();
  return overflow == Overflow::saturate ? Real(448) : std::numeric_limits<Real>::quiet_NaN();
}

template <Dtype t, class Real>
void round_loop(Real* x, std::size_t n, Overflow overflow) {
  const Real beyond = beyond_largest<t, Real>(overflow);
  for (std::size_t i = 0; i < n; ++i) x[i] = nearest<t>(x[i], beyond);
}

template <class Real>
void round_all(Dtype t, Real* x, std::size_t n, Overflow overflow) {
  switch (t) {
    case Dtype::fp64: return;
    case Dtype::fp32:
      if constexpr (sizeof(Real) == 8)
        for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(x[i]);
      return;
    case Dtype::fp16: return round_loop<Dtype::fp16>(x, n, overflow);
    case Dtype::bf16: return round_loop<Dtype::bf16>(x, n, overflow);
    case Dtype::e4m3: return round_loop<Dtype::e4m3>(x, n, overflow);
  }
}

/// The code of a value that the format holds exactly (or NaN): sign, then exponent and mantissa as one
/// number, which is 0 for zero and counts up through the subnormals and normals.
std::uint32_t code_of(double exact, const Format& f) {
  const std::uint32_t sign = std::signbit(exact) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0u;
  const std::uint32_t exponent_mask = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  const std::uint64_t bits = bits_as<std::uint64_t>(exact);
  const auto mantissa =
      static_cast<std::uint32_t>(bits >> (52 - f.mantissa_bits)) & ((1u << f.mantissa_bits) - 1);
  if (std::isnan(exact)) return sign | exponent_mask | mantissa;
  if (std::isinf(exact)) return sign | exponent_mask;
  const double magnitude = std::abs(exact);
  if (magnitude < std::ldexp(1.0, f.min_exponent))
    return sign | static_cast<std::uint32_t>(std::ldexp(magnitude, f.mantissa_bits - f.min_exponent));
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  return sign | static_cast<std::uint32_t>(exponent - f.min_exponent + 1) << f.mantissa_bits | mantissa;
}

/// The inverse for finite codes.
float value_of(std::uint32_t code, const Format& f) {
  const std::uint32_t mantissa = code & ((1u << f.mantissa_bits) - 1);
  const int exponent = static_cast<int>(code >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const bool negative = (code >> (f.mantissa_bits + f.exponent_bits)) & 1;
  const double significand = mantissa + (exponent > 0 ? std::ldexp(1.0, f.mantissa_bits) : 0.0);
  const double magnitude =
      std::ldexp(significand, (exponent > 0 ? exponent - 1 : 0) + f.min_exponent - f.mantissa_bits);
  return static_cast<float>(negative ? -magnitude : magnitude);
}

}  // namespace

float rounded(Dtype t, float x, Overflow overflow) {
  round_all(t, &x, 1, overflow);
  return x;
}
double rounded(Dtype t, double x, Overflow overflow) {
  round_all(t, &x, 1, overflow);
  return x;
}

void round_to(Dtype t, float* x, std::size_t n, Overflow overflow) { round_all(t, x, n, overflow); }
void round_to(Dtype t, double* x, std::size_t n, Overflow overflow) { round_all(t, x, n, overflow); }

std::uint16_t encode_fp16(double x) {
  return static_cast<std::uint16_t>(code_of(rounded(Dtype::fp16, x), format_of(Dtype::fp16)));
}
std::uint16_t encode_bf16(double x) {
  return static_cast<std::uint16_t>(code_of(rounded(Dtype::bf16, x), format_of(Dtype::bf16)));
}
std::uint8_t encode_e4m3(double x, Overflow overflow) {
  const double r = rounded(Dtype::e4m3, x, overflow);
  if (std::isnan(r)) return std::signbit(r) ? 0xff : 0x7f;
  return static_cast<std::uint8_t>(code_of(r, format_of(Dtype::e4m3)));
}

float decode_fp16(std::uint16_t code) {
  // NaN and infinity: the same sign and payload bits, further up.
  if ((code & 0x7c00) == 0x7c00)
    return bits_as<float>(std::uint32_t{code & 0x8000u} << 16 | 0x7f800000u |
                          std::uint32_t{code & 0x3ffu} << 13);
  return value_of(code, format_of(Dtype::fp16));
}
float decode_bf16(std::uint16_t code) { return bits_as<float>(std::uint32_t{code} << 16); }
float decode_e4m3(std::uint8_t code) {
  if ((code & 0x7f) == 0x7f) return bits_as<float>(code == 0xff ? 0xffc00000u : 0x7fc00000u);
  return value_of(code, format_of(Dtype::e4m3));
}

}  // namespace flashsim

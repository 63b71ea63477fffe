#include "cpu_reference/rounding.h"

#include <doctest/doctest.h>

#include <rapidcheck.h>
#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using namespace flashsim;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Value {
  double value;
  unsigned code;
};

/// The definition of a format, written independently of the code under test: every finite value of it that is
/// not negative, in increasing order. Sign, exponent field, mantissa field; exponent field 0 is subnormal.
std::vector<Value> values_of(Dtype t) {
  const int mantissa_bits = t == Dtype::fp16 ? 10 : t == Dtype::bf16 ? 7 : 3;
  const int bias = t == Dtype::fp16 ? 15 : t == Dtype::bf16 ? 127 : 7;
  const unsigned end = t == Dtype::fp16 ? 0x7c00u : t == Dtype::bf16 ? 0x7f80u : 0x7fu;
  std::vector<Value> values;
  for (unsigned code = 0; code < end; ++code) {
    const int exponent = static_cast<int>(code >> mantissa_bits);
    const double fraction = (code & ((1u << mantissa_bits) - 1)) / std::ldexp(1.0, mantissa_bits);
    values.push_back(
        {exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias), code});
  }
  return values;
}

/// Rounding by search among all values. Values past the midpoint between the largest and the number that
/// would follow it have no nearest value.
double nearest_by_search(const std::vector<Value>& values, double x, double beyond) {
  const double a = std::abs(x), largest = values.back().value;
  const double next = largest + (largest - values[values.size() - 2].value);
  double r;
  if (a >= largest) {
    const double middle = largest + (next - largest) / 2;
    const bool largest_is_even = values.back().code % 2 == 0;
    r = a < middle || (a == middle && largest_is_even) ? largest : beyond;
  } else {
    const auto above = std::upper_bound(values.begin(), values.end(), a,
                                        [](double v, const Value& e) { return v < e.value; });
    const auto below = above - 1;
    // Both distances are exact: neighbouring values differ by a power of two that fits a double.
    const double down = a - below->value, up = above->value - a;
    r = down < up || (down == up && below->code % 2 == 0) ? below->value : above->value;
  }
  return std::copysign(r, x);
}

unsigned encode(Dtype t, double x) {
  return t == Dtype::fp16   ? encode_fp16(x)
         : t == Dtype::bf16 ? encode_bf16(x)
                            : encode_e4m3(x, Overflow::nan);
}
float decode(Dtype t, unsigned code) {
  return t == Dtype::fp16   ? decode_fp16(static_cast<std::uint16_t>(code))
         : t == Dtype::bf16 ? decode_bf16(static_cast<std::uint16_t>(code))
                            : decode_e4m3(static_cast<std::uint8_t>(code));
}
unsigned codes(Dtype t) { return t == Dtype::e4m3 ? 256 : 65536; }
double beyond(Dtype t) { return t == Dtype::e4m3 ? std::numeric_limits<double>::quiet_NaN() : kInfinity; }

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

constexpr Dtype kSmall[] = {Dtype::fp16, Dtype::bf16, Dtype::e4m3};

}  // namespace

TEST_CASE("every finite code has the value that its definition says, and no other") {
  for (const Dtype t : kSmall) {
    CAPTURE(name_of(t));
    const unsigned sign = codes(t) / 2;
    int wrong = 0;
    for (const Value& v : values_of(t)) {
      wrong += !same(decode(t, v.code), v.value);
      wrong += !same(decode(t, sign | v.code), -v.value);
    }
    CHECK(wrong == 0);
    CHECK(values_of(t).back().value == largest_finite(t));
    CHECK(values_of(t)[1].value == smallest_positive(t));
  }
}

TEST_CASE("every code survives decoding and encoding") {
  for (const Dtype t : kSmall) {
    CAPTURE(name_of(t));
    int wrong = 0;
    for (unsigned code = 0; code < codes(t); ++code) {
      const float x = decode(t, code);
      unsigned expected = code;
      if (std::isnan(x) && t == Dtype::fp16) expected |= 0x200;  // signalling NaN becomes quiet
      if (std::isnan(x) && t == Dtype::bf16) expected |= 0x40;
      wrong += encode(t, x) != expected;
      wrong += !same(rounded(t, x, Overflow::nan), x);
      wrong += !same(rounded(t, double{x}, Overflow::nan), x);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("between neighbours: midpoints go to the even code, everything else to the nearer one") {
  for (const Dtype t : kSmall) {
    CAPTURE(name_of(t));
    const std::vector<Value> values = values_of(t);
    int wrong = 0;
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const double below = values[i].value, above = values[i + 1].value, middle = (below + above) / 2;
      const double even = values[i].code % 2 == 0 ? below : above;
      for (const double sign : {1.0, -1.0}) {
        wrong += !same(rounded(t, sign * middle), sign * even);
        wrong += !same(rounded(t, sign * std::nextafter(middle, 0.0)), sign * below);
        wrong += !same(rounded(t, sign * std::nextafter(middle, kInfinity)), sign * above);
        const auto m = static_cast<float>(middle);  // exact: one more bit than the format has
        wrong += !same(rounded(t, static_cast<float>(sign) * m), sign * even);
        wrong += !same(rounded(t, static_cast<float>(sign) * std::nextafter(m, 0.0f)), sign * below);
        wrong += !same(rounded(t, static_cast<float>(sign) * std::nextafter(m, INFINITY)), sign * above);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("any double and any float rounds as a search among all values says") {
  std::vector<std::vector<Value>> values;
  for (const Dtype t : kSmall) values.push_back(values_of(t));
  CHECK(rc::check("doubles near the format's range", [&](std::uint64_t bits, int exponent) {
    const double fraction = 1.0 + std::ldexp(static_cast<double>(bits >> 12), -52);
    const double x = std::ldexp(bits & 1 ? -fraction : fraction, exponent % 170);
    for (int i = 0; i < 3; ++i) {
      const double expected = nearest_by_search(values[i], x, beyond(kSmall[i]));
      RC_ASSERT(same(rounded(kSmall[i], x, Overflow::nan), expected));
      RC_ASSERT(same(decode(kSmall[i], encode(kSmall[i], x)), expected));
    }
  }));
  CHECK(rc::check("floats of any bits", [&](std::uint32_t bits) {
    const auto x = std::bit_cast<float>(bits);
    RC_PRE(!std::isnan(x));
    for (int i = 0; i < 3; ++i)
      RC_ASSERT(
          same(rounded(kSmall[i], x, Overflow::nan), nearest_by_search(values[i], x, beyond(kSmall[i]))));
  }));
}

TEST_CASE("fp16 and bf16 agree with Eigen's") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0xffff0000u; bits += 0x9e37u) {  // 105,000 floats all over the range
    const auto x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    wrong += !same(rounded(Dtype::fp16, x), static_cast<float>(Eigen::half(x)));
    wrong += !same(rounded(Dtype::bf16, x), static_cast<float>(Eigen::bfloat16(x)));
  }
  CHECK(wrong == 0);
}

TEST_CASE("a double is not rounded twice") {
  // Just above the midpoint of 1 and the next fp16 value. By way of float it would become the midpoint, and
  // then go down to the even 1.
  const double x = 1.0 + 0x1p-11 + 0x1p-40;
  CHECK(rounded(Dtype::fp16, x) == 1.0 + 0x1p-10);
  CHECK(rounded(Dtype::fp16, double{static_cast<float>(x)}) == 1.0);
  CHECK(rounded(Dtype::fp32, x) == double{static_cast<float>(x)});
  CHECK(rounded(Dtype::fp64, x) == x);
}

TEST_CASE("overflow, infinity and NaN") {
  for (const double sign : {1.0, -1.0}) {
    CHECK(rounded(Dtype::fp16, sign * 65519.999) == sign * 65504);
    CHECK(rounded(Dtype::fp16, sign * 65520.0) == sign * kInfinity);
    CHECK(rounded(Dtype::fp16, sign * kInfinity) == sign * kInfinity);
    CHECK(rounded(Dtype::bf16, sign * kInfinity) == sign * kInfinity);
    CHECK(rounded(Dtype::bf16, sign * 1e300) == sign * kInfinity);

    CHECK(rounded(Dtype::e4m3, sign * 449.0) == sign * 448);
    CHECK(rounded(Dtype::e4m3, sign * 1e9) == sign * 448);
    CHECK(rounded(Dtype::e4m3, sign * kInfinity) == sign * 448);
    CHECK(rounded(Dtype::e4m3, sign * 464.0, Overflow::nan) == sign * 448);  // the tie goes to even 448
    CHECK(std::isnan(rounded(Dtype::e4m3, sign * 464.001, Overflow::nan)));
    CHECK(std::isnan(rounded(Dtype::e4m3, sign * kInfinity, Overflow::nan)));
    CHECK(encode_e4m3(sign * 1e9) == (sign > 0 ? 0x7e : 0xfe));
    CHECK(encode_e4m3(sign * 1e9, Overflow::nan) == (sign > 0 ? 0x7f : 0xff));
  }
  for (const Dtype t : kSmall) {
    CHECK(std::isnan(rounded(t, std::numeric_limits<double>::quiet_NaN())));
    CHECK(std::isnan(rounded(t, std::numeric_limits<float>::quiet_NaN())));
    CHECK(std::isnan(rounded(t, std::bit_cast<double>(0x7ff0000000000001u))));  // payload only in lost bits
    CHECK(std::isnan(rounded(t, std::bit_cast<float>(0x7f800001u))));
    CHECK(same(rounded(t, -0.0), -0.0));
  }
  CHECK(std::isnan(decode_e4m3(0x7f)));
  CHECK(encode_fp16(kInfinity) == 0x7c00);
  CHECK(encode_fp16(-kInfinity) == 0xfc00);
}

TEST_CASE("unit roundoff is the largest relative error in the normal range") {
  CHECK(unit_roundoff(Dtype::fp64) == std::numeric_limits<double>::epsilon() / 2);
  CHECK(unit_roundoff(Dtype::fp32) == double{std::numeric_limits<float>::epsilon()} / 2);
  for (const Dtype t : kSmall) {
    const double u = unit_roundoff(t);
    CHECK(rounded(t, 1 + u) == 1.0);                        // the tie next to 1 goes down to even
    CHECK(rounded(t, 1 + u * (1 + 0x1p-20)) == 1 + 2 * u);  // and is half the distance to the next value
  }
}

TEST_CASE("the loops in place give what single calls give") {
  std::vector<float> floats;
  std::vector<double> doubles;
  for (std::uint32_t i = 0; i < 1003; ++i) {  // not a multiple of any vector width
    floats.push_back(std::bit_cast<float>(i * 0x9e3779b9u));
    doubles.push_back(std::bit_cast<double>(i * 0x9e3779b97f4a7c15u));
  }
  for (const Dtype t : {Dtype::fp64, Dtype::fp32, Dtype::fp16, Dtype::bf16, Dtype::e4m3})
    for (const Overflow o : {Overflow::saturate, Overflow::nan}) {
      std::vector<float> f = floats;
      std::vector<double> d = doubles;
      round_to(t, f.data(), f.size(), o);
      round_to(t, d.data(), d.size(), o);
      int wrong = 0;
      for (std::size_t i = 0; i < f.size(); ++i) {
        wrong += !same(f[i], rounded(t, floats[i], o));
        wrong += !same(d[i], rounded(t, doubles[i], o));
      }
      CHECK(wrong == 0);
    }
}

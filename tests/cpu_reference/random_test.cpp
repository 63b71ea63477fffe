#include "cpu_reference/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cpu_reference/philox.h"

using namespace flashsim;

namespace {

constexpr auto kNormal = Distribution::normal, kOutliers = Distribution::outliers,
               kUniform = Distribution::uniform;

/// Mean of f over the first n elements.
template <class F>
double mean(Distribution d, std::size_t n, F f) {
  double sum = 0;
  for (const double x : random_tensor(d, 7, tensor_id::q, n)) sum += f(x);
  return sum / static_cast<double>(n);
}

}  // namespace

TEST_CASE("golden values: the same bits on every machine") {
  CHECK(random_value(kNormal, 1, 0, 0) == -0x1.e729407120997p-2);
  CHECK(random_value(kNormal, 1, 0, 1) == 0x1.1f146dd764003p+1);
  CHECK(random_value(kNormal, 1, 1, 0) == -0x1.4f99addeb0739p+0);
  CHECK(random_value(kNormal, 2, 0, 5000000001) == -0x1.bd42624c323bep-2);
  CHECK(random_value(kOutliers, 1, 0, 1286) == -0x1.3ca06e063390ap+3);
  CHECK(random_value(kUniform, 1, 0, 0) == -0x1.b61046fb87ee4p-1);
  CHECK(random_value(kUniform, 1, 0, 1) == -0x1.bbdea6ffae368p-2);
}

TEST_CASE("a normal value is Box-Muller of two uniform numbers from Philox") {
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const PhiloxWords w = philox4x32_10(99, i, 0, tensor_id::k, 1);
    const auto u =
        (static_cast<long double>((std::uint64_t{w.word[0]} << 32 | w.word[1]) >> 12) + 0.5L) / 0x1p52L;
    const auto turn = static_cast<long double>(std::uint64_t{w.word[2]} << 32 | w.word[3]) / 0x1p64L;
    const long double radius = std::sqrt(-2 * std::log(u)),
                      angle = 2 * std::numbers::pi_v<long double> * turn;
    // A dozen roundings of numbers no larger than the radius.
    const double tolerance = 12 * 0x1p-53 * std::max(1.0, static_cast<double>(radius));
    const double even = random_value(kNormal, 99, tensor_id::k, 2 * i);
    const double odd = random_value(kNormal, 99, tensor_id::k, 2 * i + 1);
    CHECK_MESSAGE(std::abs(even - static_cast<double>(radius * std::cos(angle))) <= tolerance, "pair ", i);
    CHECK_MESSAGE(std::abs(odd - static_cast<double>(radius * std::sin(angle))) <= tolerance, "pair ", i);
  }
}

TEST_CASE("moments, within five standard deviations of their estimates") {
  const std::size_t n = 400000;
  const double s = 5 / std::sqrt(static_cast<double>(n));
  CHECK(std::abs(mean(kNormal, n, [](double x) { return x; })) <= s);
  CHECK(std::abs(mean(kNormal, n, [](double x) { return x * x; }) - 1) <= s * std::sqrt(2.0));
  CHECK(std::abs(mean(kNormal, n, [](double x) { return x * x * x; })) <= s * std::sqrt(15.0));
  CHECK(std::abs(mean(kNormal, n, [](double x) { return x * x * x * x; }) - 3) <= s * std::sqrt(96.0));
  // Beyond one, two and three standard deviations.
  for (const double t : {1.0, 2.0, 3.0}) {
    const double tail = std::erfc(t / std::sqrt(2.0));
    CHECK(std::abs(mean(kNormal, n, [t](double x) { return std::abs(x) > t; }) - tail) <=
          s * std::sqrt(tail));
  }
  CHECK(std::abs(mean(kUniform, n, [](double x) { return x; })) <= s * std::sqrt(1.0 / 3));
  CHECK(std::abs(mean(kUniform, n, [](double x) { return x * x; }) - 1.0 / 3) <= s * std::sqrt(4.0 / 45));
  for (const double x : random_tensor(kUniform, 7, tensor_id::v, 10000)) CHECK((x >= -1 && x < 1));
}

TEST_CASE("outliers: one in a thousand has variance 100 added, the others are the normal values") {
  const std::size_t n = 1000000;
  const auto base = random_tensor(kNormal, 3, tensor_id::k, n),
             x = random_tensor(kOutliers, 3, tensor_id::k, n);
  double count = 0, squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double added = x[i] - base[i];
    count += added != 0;
    squares += added * added;
  }
  CHECK(std::abs(count - 1000) <= 5 * std::sqrt(1000.0));
  CHECK(std::abs(squares / count - 100) <= 5 * 100 * std::sqrt(2 / count));
}

TEST_CASE("any slice can be made alone") {
  for (const Distribution d : {kNormal, kOutliers, kUniform}) {
    const auto whole = random_tensor(d, 11, tensor_id::d_o, 100);
    for (const std::size_t first : {0u, 1u, 17u, 64u}) {
      double part[20];
      float floats[20];
      fill_random(d, 11, tensor_id::d_o, first, part, 20);
      fill_random(d, 11, tensor_id::d_o, first, floats, 20);
      CHECK(std::equal(part, part + 20, whole.begin() + static_cast<long>(first)));
      for (int i = 0; i < 20; ++i) CHECK(floats[i] == static_cast<float>(part[i]));
    }
  }
  // Far beyond 32 bits, and no wrap-around.
  CHECK(random_value(kNormal, 1, 0, std::uint64_t{1} << 40) != random_value(kNormal, 1, 0, 0));
}

TEST_CASE("seeds and tensors are independent streams") {
  const std::size_t n = 100000;
  const auto a = random_tensor(kNormal, 1, tensor_id::q, n);
  const auto others = {random_tensor(kNormal, 2, tensor_id::q, n), random_tensor(kNormal, 1, tensor_id::k, n),
                       random_tensor(kNormal, 1 + (std::uint64_t{1} << 32), tensor_id::q, n)};
  for (const auto& b : others) {
    double product = 0;
    for (std::size_t i = 0; i < n; ++i) product += a[i] * b[i];
    CHECK(std::abs(product / static_cast<double>(n)) <= 5 / std::sqrt(static_cast<double>(n)));
  }
}

TEST_CASE("signs are fair and depend on the seed") {
  const int n = 100000;
  double sum = 0, product = 0;
  for (int i = 0; i < n; ++i) {
    const double a = random_sign(1, static_cast<std::uint64_t>(i));
    CHECK(std::abs(a) == 1.0);
    sum += a;
    product += a * random_sign(2, static_cast<std::uint64_t>(i));
  }
  CHECK(std::abs(sum) <= 5 * std::sqrt(n));
  CHECK(std::abs(product) <= 5 * std::sqrt(n));
}

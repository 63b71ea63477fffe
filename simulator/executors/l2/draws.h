// Random draws that are the same on every platform (std's distributions are not).
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace flashsim::l2 {

/// Scatters the bits of x (the finaliser of MurmurHash3).
constexpr std::uint64_t scatter(std::uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(scatter(seed + 0x9e3779b97f4a7c15ULL)) {}
  std::uint64_t bits() { return engine_(); }
  /// In [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  /// In 0 ... n - 1.
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((engine_() >> 32) * n >> 32); }
  /// Normal with mean 0 and deviation 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace flashsim::l2

// Random inputs that are the same, bit for bit, on every machine and compiler: element `index` of tensor
// `tensor` under `seed` is a pure function of those three numbers, so any slice can be made alone and in any
// order. The standard library's distributions give no such promise, and neither does its log or cos.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace flashsim {

enum class Distribution : std::uint8_t {
  normal,    ///< N(0, 1)
  outliers,  ///< N(0, 1) + N(0, 100) * Bernoulli(0.001); 100 is the variance. FA3 (Shah et al. 2024),
             ///< sec. 4.3
  uniform,   ///< [-1, 1)
};

/// Tensor ids for the inputs of attention; any other number names another independent stream.
namespace tensor_id {
inline constexpr std::uint32_t q = 0, k = 1, v = 2, d_o = 3;
}

/// One element.
double random_value(Distribution d, std::uint64_t seed, std::uint32_t tensor, std::uint64_t index);

/// Elements first ... first + n - 1 to `out`; floats are the doubles rounded once.
void fill_random(Distribution d, std::uint64_t seed, std::uint32_t tensor, std::uint64_t first, double* out,
                 std::size_t n);
void fill_random(Distribution d, std::uint64_t seed, std::uint32_t tensor, std::uint64_t first, float* out,
                 std::size_t n);

/// Elements 0 ... n - 1.
std::vector<double> random_tensor(Distribution d, std::uint64_t seed, std::uint32_t tensor, std::size_t n);

/// +1 or -1 with equal chance: element `index` of a sign vector (for hadamard.h).
double random_sign(std::uint64_t seed, std::uint64_t index);

}  // namespace flashsim

// The problems that kernels are checked on: a fixed adversarial list, and random ones that are a pure
// function of a seed and a number, so that any failure can be repeated alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu_reference/problem.h"

namespace flashsim::gpu {

/// What Q, K, V and dO hold.
enum class Fill : std::uint8_t {
  normal,           ///< N(0, 1)
  outliers,         ///< N(0, 1) + N(0, 100) * Bernoulli(0.001)
  constant_scores,  ///< every key is the same: each row of S is constant
  growing_maximum,  ///< scores grow with the key, so that every tile raises the maximum
  large_logits,     ///< Q times 3000: scaled scores up to about 1e4
  nonfinite_v,      ///< N(0, 1), and Inf or NaN in V of the last key: rows that do not see it must stay clean
  nonfinite,        ///< the same with K of the last key NaN, dO of the first row NaN, Q of some rows Inf
};
const char* name_of(Fill fill);

struct Case {
  Problem problem;
  Fill fill = Fill::normal;
  std::uint64_t seed = 0;
};

/// E.g. "batch 1, heads 4/2, seqlen 257 x 300, d 64, fp16, causal, large_logits".
std::string describe(const Case& c);

/// Lengths 1, tile - 1, tile, tile + 1; more queries than keys; rows that see nothing; odd head_dim; windows;
/// GQA; dropout; every Fill. Small: each takes the oracle less than a second.
const std::vector<Case>& adversarial_cases();

/// At most about 2^26 multiplications a product.
Case random_case(std::uint64_t seed, int number);

}  // namespace flashsim::gpu

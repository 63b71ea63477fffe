// Philox4x32-10 (Salmon et al. 2011) and the dropout mask built on it. C++17 and usable in device code, so
// that CPU and GPU drop the same elements whatever the tiling.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define FLASHSIM_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define FLASHSIM_HOST_DEVICE inline
#endif

namespace flashsim {

struct PhiloxWords {
  std::uint32_t word[4];
};

/// Four random words for a 64-bit key and a 128-bit counter.
FLASHSIM_HOST_DEVICE PhiloxWords philox4x32_10(std::uint64_t key, std::uint32_t c0, std::uint32_t c1,
                                               std::uint32_t c2, std::uint32_t c3) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c0, b = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(b);
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The words that decide about columns 4 * (col / 4) ... + 3 of one row of P. `head` counts over the batch:
/// batch index * heads_q + query head.
FLASHSIM_HOST_DEVICE PhiloxWords dropout_words(std::uint64_t seed, std::uint32_t head, std::uint32_t row,
                                               std::uint32_t col) {
  return philox4x32_10(seed, col / 4, row, head, 0);
}

/// An element is kept where its word is at least this: floor(p * 2^32), p in [0, 1).
FLASHSIM_HOST_DEVICE std::uint32_t dropout_threshold(float p) {
  return static_cast<std::uint32_t>(static_cast<double>(p) * 4294967296.0);
}

/// Whether element (row, col) of P survives; kept values are scaled by 1 / (1 - p).
FLASHSIM_HOST_DEVICE bool dropout_keeps(std::uint64_t seed, std::uint32_t threshold, std::uint32_t head,
                                        std::uint32_t row, std::uint32_t col) {
  return dropout_words(seed, head, row, col).word[col % 4] >= threshold;
}

}  // namespace flashsim

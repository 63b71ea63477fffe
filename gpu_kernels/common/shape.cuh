// Problem as kernels take it: a small struct passed by value, masks as two offsets per query, 64-bit rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu_reference/philox.h"
#include "cpu_reference/problem.h"

namespace flashsim::gpu {

/// Longest sequence the kernels take: row and key numbers of a padded tile then add up within 32 bits.
constexpr int max_seqlen = 1 << 29;

struct Shape {
  int batch, heads_q, heads_kv, group;  ///< group: query heads that share one K/V head
  int seqlen_q, seqlen_k, head_dim;
  int first_offset,
      end_offset;           ///< query q sees keys [q + first_offset, q + end_offset) within [0, seqlen_k)
  float scale, scale_log2;  ///< softmax scale, and times log2(e): exp(scale x) = 2^(scale_log2 x)
  float keep_scale;         ///< 1 / (1 - p)
  std::uint32_t dropout_threshold;  ///< 0: no dropout
  std::uint64_t dropout_seed;

  /// As Problem::first_key and end_key; also for the rows that pad the last tile.
  __host__ __device__ int first_key(int q) const { return clamp_key(q + first_offset); }
  __host__ __device__ int end_key(int q) const { return clamp_key(q + end_offset); }
  /// First query whose keys reach `key` or beyond it, and one past the last query that has not left `key`
  /// behind; both within [0, seqlen_q]. Only queries in between can see `key`.
  __host__ __device__ int first_query(int key) const { return clamp_query(key + 1 - end_offset); }
  __host__ __device__ int end_query(int key) const { return clamp_query(key + 1 - first_offset); }

  /// Row of a (batch, heads_q, seqlen_q, ...) or (batch, heads_kv, seqlen_k, ...) tensor where a head starts.
  __host__ __device__ std::int64_t query_row(int b, int head_q) const {
    return (std::int64_t{b} * heads_q + head_q) * seqlen_q;
  }
  __host__ __device__ std::int64_t key_row(int b, int head_kv) const {
    return (std::int64_t{b} * heads_kv + head_kv) * seqlen_k;
  }

 private:
  __host__ __device__ int clamp_key(int k) const { return k < 0 ? 0 : k > seqlen_k ? seqlen_k : k; }
  __host__ __device__ int clamp_query(int q) const { return q < 0 ? 0 : q > seqlen_q ? seqlen_q : q; }
};

/// Flattens a problem without fault whose lengths are at most max_seqlen.
inline Shape shape_of(const Problem& p) {
  // Offsets are clamped to where the mask no longer changes, so that 32-bit sums with a row cannot overflow.
  const auto offset = [&p](std::int64_t o) {
    return static_cast<int>(std::clamp<std::int64_t>(o, -p.seqlen_q, p.seqlen_k));
  };
  Shape s{};
  s.batch = p.batch, s.heads_q = p.heads_q, s.heads_kv = p.heads_kv, s.group = p.group();
  s.seqlen_q = p.seqlen_q, s.seqlen_k = p.seqlen_k, s.head_dim = p.head_dim;
  s.first_offset = p.window_left < 0 ? -p.seqlen_q : offset(std::int64_t{p.shift()} - p.window_left);
  s.end_offset = !p.causal && p.window_right < 0
                     ? p.seqlen_k
                     : offset(std::int64_t{p.shift()} + 1 + (p.causal ? 0 : p.window_right));
  s.scale = static_cast<float>(scale_of(p));
  s.scale_log2 = static_cast<float>(scale_of(p) * 1.4426950408889634074);
  s.keep_scale = static_cast<float>(1.0 / (1.0 - double{p.dropout_p}));
  s.dropout_threshold = dropout_threshold(p.dropout_p);
  s.dropout_seed = p.dropout_seed;
  return s;
}

/// head_dim padded to the next tile width: 64, 128 or 256.
constexpr int padded_head_dim(int head_dim) { return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256; }

/// What every 16-bit kernel refuses, as Kernel::fault returns it; empty where there is nothing.
inline std::string fault_of_16_bit_problem(const Problem& p) {
  std::string fault = fault_of(p);
  if (!fault.empty()) return fault;
  if (p.dtype != Dtype::fp16 && p.dtype != Dtype::bf16)
    return std::string("the inputs are ") + name_of(p.dtype) + "; this kernel takes fp16 and bf16";
  if (p.head_dim % 8 != 0 || p.head_dim > 256)
    return "head_dim is " + std::to_string(p.head_dim) +
           "; this kernel takes multiples of 8 up to 256 (16-byte rows)";
  if (p.seqlen_q > max_seqlen || p.seqlen_k > max_seqlen)
    return "a sequence is longer than " + std::to_string(max_seqlen);
  return {};
}

}  // namespace flashsim::gpu

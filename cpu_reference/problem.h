// What is computed (Problem) and how it is cut (Tiling). Plain values without dependencies, C++17, so that
// the simulator and the CUDA kernels are configured by the same objects.
#pragma once

#include <cstdint>
#include <string>

namespace flashsim {

// ---------------------------------------------------------------------------------------------------- Dtype

enum class Dtype : std::uint8_t { fp64, fp32, fp16, bf16, e4m3 };

/// Bytes one element takes in memory.
constexpr int bytes_of(Dtype t) {
  return t == Dtype::fp64 ? 8 : t == Dtype::fp32 ? 4 : t == Dtype::e4m3 ? 1 : 2;
}
constexpr const char* name_of(Dtype t) {
  return t == Dtype::fp64   ? "fp64"
         : t == Dtype::fp32 ? "fp32"
         : t == Dtype::fp16 ? "fp16"
         : t == Dtype::bf16 ? "bf16"
                            : "e4m3";
}

// -------------------------------------------------------------------------------------------------- Problem

/// One attention problem: O = softmax(softmax_scale * Q K^T, masked) V for every batch entry and query head.
///
/// Shapes: Q, O (batch, heads_q, seqlen_q, head_dim); K, V (batch, heads_kv, seqlen_k, head_dim);
/// LSE (batch, heads_q, seqlen_q), the natural log of the sum of exp(scaled scores) over visible keys.
/// Query head h reads key/value head h / (heads_q / heads_kv) (grouped-query attention).
struct Problem {
  int batch = 1;
  int heads_q = 1;
  int heads_kv = 1;  ///< divides heads_q; equal: multi-head, 1: multi-query attention
  int seqlen_q = 0;
  int seqlen_k = 0;
  int head_dim = 0;
  Dtype dtype = Dtype::fp16;

  /// Masks are aligned bottom-right, as in FlashAttention 2.1 and later: the last query lines up with the
  /// last key, so query q stands at key q + seqlen_k - seqlen_q. Causal hides every key after that one; a
  /// window keeps `window_left` keys before it and `window_right` keys after it (-1: no limit).
  bool causal = false;
  int window_left = -1;
  int window_right = -1;

  float softmax_scale = 0;  ///< multiplies Q K^T; 0 stands for 1 / sqrt(head_dim)

  float dropout_p = 0;             ///< probability that an element of P is dropped, in [0, 1)
  std::uint64_t dropout_seed = 0;  ///< Philox key; see philox.h

  constexpr int group() const { return heads_q / heads_kv; }  ///< query heads that share one K/V head
  constexpr int shift() const { return seqlen_k - seqlen_q; }
  constexpr bool masked() const { return causal || window_left >= 0 || window_right >= 0; }

  /// First visible key of query q, and one past the last; both never decrease with q. begin >= end: none.
  constexpr int first_key(int q) const {
    const std::int64_t k = std::int64_t{q} + shift() - window_left;
    return window_left < 0 || k < 0 ? 0 : k > seqlen_k ? seqlen_k : static_cast<int>(k);
  }
  constexpr int end_key(int q) const {
    if (!causal && window_right < 0) return seqlen_k;
    const std::int64_t k = std::int64_t{q} + shift() + 1 + (causal ? 0 : window_right);
    return k < 0 ? 0 : k > seqlen_k ? seqlen_k : static_cast<int>(k);
  }
  constexpr bool sees(int q, int k) const { return k >= first_key(q) && k < end_key(q); }

  friend constexpr bool operator==(const Problem& a, const Problem& b) {
    return a.batch == b.batch && a.heads_q == b.heads_q && a.heads_kv == b.heads_kv &&
           a.seqlen_q == b.seqlen_q && a.seqlen_k == b.seqlen_k && a.head_dim == b.head_dim &&
           a.dtype == b.dtype && a.causal == b.causal && a.window_left == b.window_left &&
           a.window_right == b.window_right && a.softmax_scale == b.softmax_scale &&
           a.dropout_p == b.dropout_p && a.dropout_seed == b.dropout_seed;
  }
  friend constexpr bool operator!=(const Problem& a, const Problem& b) { return !(a == b); }
};

/// softmax_scale, or 1 / sqrt(head_dim) where it is left at 0.
double scale_of(const Problem& p);

/// Elements of one n x d tensor over all heads, in 64 bits: batch * heads * rows * cols.
constexpr std::int64_t elements(const Problem& p, int heads, int rows, int cols) {
  return std::int64_t{p.batch} * heads * rows * cols;
}

/// Query heads, in whole groups, whose K and V take at most `bytes`; at least one group, at most all.
constexpr int heads_within(const Problem& p, std::int64_t bytes) {
  const std::int64_t head = std::int64_t{2} * p.seqlen_k * p.head_dim * bytes_of(p.dtype);
  const std::int64_t fit = (bytes < head ? 1 : bytes / head) * p.group(),
                     all = std::int64_t{p.batch} * p.heads_q;
  return static_cast<int>(fit < all ? fit : all);
}

// --------------------------------------------------------------------------------------------------- Tiling

/// How the warps of a thread block share a tile of S: FA2 gives each warp rows of Q, FA1 columns of K (so
/// that every warp reads all of Q and the partial results meet in shared memory).
enum class WarpSplit : std::uint8_t { query, key };

/// In which order the thread blocks of one head start. Causal blocks late in the sequence have most work.
enum class BlockOrder : std::uint8_t { first_to_last, last_to_first };

/// How a kernel cuts and stages its work. The same value configures the schedule in the simulator and the
/// CUDA kernel, so that their bytes can be compared.
struct Tiling {
  int block_q = 64;  ///< B_r: rows of Q per tile
  int block_k = 64;  ///< B_c: rows of K and V per tile
  int stages = 1;    ///< K/V buffers in the ring that loads go round (FA3: 2)
  int warps = 4;     ///< warps that compute; FA3: 4 per consumer warpgroup
  WarpSplit split = WarpSplit::query;
  BlockOrder order = BlockOrder::first_to_last;      ///< in which thread blocks start, along Q
  BlockOrder key_order = BlockOrder::first_to_last;  ///< in which a thread block of FA2, FA3 walks K and V
  /// Query heads whose thread blocks take turns, so that the longest come first (FA2, FA3, masked); 1: one
  /// head after another.
  int heads_together = 1;
  /// FA3 e4m3, masked: of every head's thread blocks the last so many, in this order the shortest, are kept
  /// for the end of the launch, when all heads take turns, so that SMs end together; 0: none.
  int late_blocks = 0;
  int num_splits = 1;                     ///< decoding: thread blocks that share the keys of one row block
  Dtype temporaries = Dtype::fp32;        ///< FA1: dtype of O (dQ) in HBM between visits; paper: the inputs'
  bool deterministic = false;             ///< FA2 backward: dQ summed in a fixed order instead of by atomics
  bool fp8_block_scales = true;           ///< FA3 fp8: one scale per tile of Q and K instead of per tensor
  bool fp8_incoherent_processing = true;  ///< FA3 fp8: Q and K times random signs and a Hadamard matrix

  constexpr int warpgroups() const { return warps < 4 ? 1 : warps / 4; }

  friend constexpr bool operator==(const Tiling& a, const Tiling& b) {
    return a.block_q == b.block_q && a.block_k == b.block_k && a.stages == b.stages && a.warps == b.warps &&
           a.split == b.split && a.order == b.order && a.key_order == b.key_order &&
           a.heads_together == b.heads_together && a.late_blocks == b.late_blocks &&
           a.num_splits == b.num_splits && a.temporaries == b.temporaries &&
           a.deterministic == b.deterministic && a.fp8_block_scales == b.fp8_block_scales &&
           a.fp8_incoherent_processing == b.fp8_incoherent_processing;
  }
  friend constexpr bool operator!=(const Tiling& a, const Tiling& b) { return !(a == b); }
};

/// What is wrong with a problem or tiling, in one sentence that says what was expected; empty where all is
/// well.
std::string fault_of(const Problem& p);
std::string fault_of(const Tiling& t);

/// One line, e.g. "batch 1, heads 16/2, seqlen 1024 x 4096, d 128, fp16, causal".
std::string describe(const Problem& p);
std::string describe(const Tiling& t);

}  // namespace flashsim

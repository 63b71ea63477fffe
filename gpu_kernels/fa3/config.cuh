// What a compiled forward kernel is made of: its tiles, the ideas it uses, its shared memory and registers.
#pragma once

#include "gpu_kernels/fa3/instances.h"
#include "gpu_kernels/fa3/schedule.cuh"
#include "gpu_kernels/fa3/tma.cuh"

namespace flashsim::gpu::fa3 {

/// The fastest kernel; variants derive from it and change a line. Two warpgroups compute, 64 rows of Q each.
template <class Element_, int HeadDim, bool Masked>
struct Config {
  using Element = Element_;
  static constexpr int head_dim = HeadDim;  ///< padded: TMA fills the columns beyond the true one with zeros
  static constexpr bool fp8 = sizeof(Element) == 1;  ///< e4m3
  static constexpr int block_q = kBlockQ, block_k = fp8 ? kFp8Block : fa3::block_k(HeadDim);
  static constexpr int stages = stages_of(HeadDim, fp8, Masked);
  static constexpr bool masked = Masked;       ///< causal or windowed
  static constexpr bool specialised = true;    ///< a warp does the loads; else a computing thread, in between
  static constexpr bool overlap = true;        ///< S of the next block is computed behind softmax of this one
  static constexpr bool stale_maximum = true;  ///< softmax.cuh; else online softmax
  static constexpr bool ping_pong = false;     ///< the warpgroups take turns at the tensor cores
  /// e4m3: P is relative to the maximum over 2^headroom; a stale maximum leaves room for growth up to 448.
  static constexpr int headroom = !fp8 ? 0 : stale_maximum ? kStaleHeadroom : kOnlineHeadroom;
  static constexpr bool q_in_registers = HeadDim <= 128 && !fp8;
  /// P V of each block goes to fresh accumulators, then into O: in fp8 the tensor cores keep too few bits.
  static constexpr bool two_level = fp8 && HeadDim <= 128;
  static constexpr Schedule schedule = Masked ? Schedule::dynamic : Schedule::fixed;
  static constexpr bool early_q = two_level && Masked;  ///< Q's buffer is free after the last Q K^T
  static constexpr int q_stages = HeadDim * sizeof(Element) <= 128 && !early_q ? 2 : 1;
  static constexpr bool split_loads = two_level;      ///< a warp each loads K, V and Q; else one loads all
  static constexpr bool late_pv = fp8 && !two_level;  ///< the wait for P V is held until early_exp are done
  /// Eighths of a block's exponentials that must come before the wait for P V.
  static constexpr int early_exp = late_pv ? 6 : HeadDim == 256 || (fp8 && !Masked) ? 8 : 5;
};
/// A kernel's shared memory, and what else follows from its Config.
template <class C>
struct Shared {
  using E = typename C::Element;
  using Output = std::conditional_t<C::fp8, __half, E>;  ///< what is quantised came as fp16
  static constexpr int chunk = 128 / sizeof(E);          ///< columns per 128 bytes, the swizzle's width
  static constexpr int warpgroups = C::block_q / 64;     ///< that compute
  static constexpr int threads = 128 * (warpgroups + (C::specialised ? 1 : 0));
  static constexpr int o_columns = C::head_dim < 128 ? C::head_dim : 128;  ///< a warp hands to TMA at a time
  static constexpr int alignment = 1024;
  static_assert(C::specialised || C::early_exp == 0, "early_exp waits for loads of a producer");
  // Registers per thread: all start with 168; the loads' warpgroup gives most of its own to the others.
  static constexpr int producer_registers = 24, consumer_registers = 240;

  alignas(alignment) E q[C::q_stages][C::block_q * C::head_dim];
  alignas(alignment) E k[C::stages][C::block_k * C::head_dim];
  alignas(alignment) E v[C::stages][C::block_k * C::head_dim];
  alignas(alignment) Output o[4 * warpgroups][16 * o_columns];  // a piece a warp
  uint64_t q_full[C::q_stages], q_empty[C::q_stages];
  uint64_t k_full[C::stages], k_empty[C::stages], v_full[C::stages], v_empty[C::stages];
  uint64_t tile_full[2], tile_empty[2];
  Tile tile[2];
};

}  // namespace flashsim::gpu::fa3

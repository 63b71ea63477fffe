// What a compiled forward kernel is made of: its tiles, the ideas it uses, its shared memory and registers.
#pragma once

#include <cuda_fp16.h>

#include <type_traits>

#include "gpu_kernels/fa3/instances.h"
#include "gpu_kernels/fa3/tma.cuh"

namespace flashsim::gpu::fa3 {

/// one_tile: a thread block per tile. fixed: as many blocks as SMs, tiles dealt out in turn. dynamic: the
/// next tile goes to whoever asks first.
enum class Schedule { one_tile, fixed, dynamic };

/// The fastest kernel; variants derive from it and change a line. Two warpgroups compute, 64 rows of Q each.
template <class Element_, int HeadDim, int BlockK, bool Masked>
struct Config {
  using Element = Element_;
  static constexpr int head_dim = HeadDim;  ///< padded: TMA fills the columns beyond the true one with zeros
  static constexpr int block_q = 128, block_k = BlockK, stages = 2;
  static constexpr bool masked = Masked;     ///< causal or windowed
  static constexpr bool specialised = true;  ///< a warp does the loads; else a computing thread, in between
  static constexpr bool overlap = true;      ///< S of the next block is computed behind softmax of this one
  static constexpr bool fp8 = sizeof(Element) == 1;  ///< e4m3
  static constexpr bool stale_maximum = true;        ///< stale_maximum.cuh; else online softmax
  static constexpr bool ping_pong = false;           ///< the warpgroups take turns at the tensor cores
  /// e4m3: P is relative to the maximum over 2^headroom; a stale maximum leaves room for growth up to 448.
  static constexpr int headroom = !fp8 ? 0 : stale_maximum ? kStaleHeadroom : kOnlineHeadroom;
  static constexpr bool q_in_registers = HeadDim <= 128 && !fp8;
  /// Each block of P V goes to fresh accumulators, then into O: in fp8 the tensor cores keep too few bits.
  static constexpr bool two_level = fp8 && HeadDim <= 128;
  static constexpr bool tma_store =
      Masked || HeadDim != 128 || fp8;  ///< O leaves by TMA; else each thread stores
  static constexpr Schedule schedule =  // at d = 256 in fp8 the dynamic schedule lacks registers
      Masked && !(fp8 && HeadDim == 256) ? Schedule::dynamic : Schedule::fixed;
  /// Eighths of a block's exponentials that must come before the wait for P V.
  static constexpr int early_exp = HeadDim == 128 && !Masked ? 5 : 8;
};

/// What follows from a Config.
template <class C>
struct Derived {
  using E = typename C::Element;
  using Output = std::conditional_t<C::fp8, __half, E>;  ///< what is quantised came as fp16
  static constexpr int chunk = 128 / sizeof(E);          ///< columns per 128 bytes, the swizzle's width
  static constexpr int chunks = C::head_dim / chunk;
  static constexpr int warpgroups = C::block_q / 64;  ///< that compute
  static constexpr int threads = 128 * (warpgroups + (C::specialised ? 1 : 0));
  static constexpr int q_bytes = C::block_q * C::head_dim * int{sizeof(E)};
  static constexpr int kv_bytes = C::block_k * C::head_dim * int{sizeof(E)};
  static constexpr int o_columns = C::head_dim < 128 ? C::head_dim : 128;  ///< a warp hands to TMA at a time
  static constexpr int o_bytes =
      C::tma_store ? 16 * o_columns * int{sizeof(Output)} : 1024;  ///< and their room
  static constexpr int barriers = 1024, alignment = 1024;
  static constexpr int shared_bytes =
      q_bytes + 2 * C::stages * kv_bytes + 4 * warpgroups * o_bytes + barriers + alignment;
  static_assert(shared_bytes <= 232448, "the tiles do not fit in shared memory");
  static_assert(C::specialised || C::early_exp == 0,
                "early_exp waits for loads that only a producer has issued");
  // Registers per thread: all start with 168; the loads' warpgroup gives most of its own to the others.
  static constexpr int producer_registers = C::schedule == Schedule::dynamic ? 40 : 24;
  static constexpr int consumer_registers = C::schedule == Schedule::dynamic ? 232 : 240;
};

template <class C>
struct Shared {
  using D = Derived<C>;
  alignas(1024) char q[D::q_bytes];
  alignas(1024) char k[C::stages][D::kv_bytes];
  alignas(1024) char v[C::stages][D::kv_bytes];
  alignas(1024) char o[4 * D::warpgroups][D::o_bytes];  // a piece a warp
  uint64_t q_full, q_empty;
  uint64_t k_full[C::stages], k_empty[C::stages], v_full[C::stages], v_empty[C::stages];
  uint64_t tile_full, tile_empty;
  int next_tile;
};

}  // namespace flashsim::gpu::fa3

// Which forward kernels are compiled, the tiles they use, and e4m3's workspace. Host side; no CUDA type.
#pragma once

#include <string>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::fa3 {

/// Rows of Q, and of K and V, per tile for a padded head_dim of 64, 128 or 256; e4m3: kFp8Block of K and V.
constexpr int kBlockQ = 128, kFp8Block = 128;
constexpr int block_k(int head_dim) { return head_dim == 256 ? 64 : 128; }
/// Buffers of K, and of V: more let the warpgroups drift apart, which hides a tile's ends but slows e4m3.
constexpr int stages_of(int dim, bool fp8, bool masked) { return dim <= (fp8 ? 128 * masked : 64) ? 4 : 2; }
/// Bytes of K and V that masked tiles of several heads, dealt out in turn, share in L2.
constexpr std::int64_t resident_bytes(int dim, bool fp8) { return (fp8 && dim <= 128 ? 16 : 32) << 20; }
/// e4m3: the largest P, in powers of two, while no score exceeds the maximum that P is relative to. With a
/// maximum of its own block P fills [0, 256]; with an older one, later scores may exceed it.
constexpr int kOnlineHeadroom = 8, kStaleHeadroom = 3;
/// one_tile: a thread block per tile. fixed: as many blocks as SMs, tiles dealt out in turn. dynamic: the
/// next tile goes to whoever asks first.
enum class Schedule { one_tile, fixed, dynamic };

struct Instance {
  void (*kernel)(struct Maps, struct ForwardParams) = nullptr;  ///< null: not compiled
  int block_k = 0, threads = 0, shared_bytes = 0;
  Schedule schedule = Schedule::fixed;  ///< dynamic: with a counter in the workspace
};
/// The kernel for a padded head_dim, masked (causal or windowed) or not.
Instance forward_fp16(int head_dim, bool masked);
Instance forward_bf16(int head_dim, bool masked);
/// For what fp8_quantise left in the workspace. online_max: with the maximum of every block.
Instance forward_fp8(int head_dim, bool masked, bool online_max = false);
/// The fp16, head_dim 128 kernel of that variant (see fa3.cu).
Instance forward_variant(const std::string& variant, bool masked);
/// Computes O and LSE, tiles in `t`'s order. `x.workspace`: e4m3's, or the counter.
void launch_forward(const Instance& i, const Problem& p, const Tiling& t, const Tensors& x, void* stream);

/// Where e4m3's workspace holds what. Rows are padded with zeros to `dim` columns.
struct Fp8Workspace {
  int dim, keys;          ///< padded head_dim (128 or 256); seqlen_k rounded up to 16
  int q_tiles, k_blocks;  ///< of kFp8Block rows, per head; each is quantised with a scale of its own
  std::int64_t q, k,
      v;  ///< at byte: (heads, seqlen_q, dim), (heads_kv, seqlen_k, dim), (heads_kv, dim, keys)
  std::int64_t q_scale, k_scale, v_scale;  ///< float: (heads, q_tiles), (heads_kv, k_blocks), (heads_kv)
  std::int64_t maxima, counter;            ///< float per head of Q, K, V; as ForwardParams::counter
  std::int64_t bytes;
};
Fp8Workspace fp8_workspace(const Problem& p);
/// Fills x.workspace from the fp16 tensors x.q, x.k, x.v (FlashAttention-3, section 3.3).
void fp8_quantise(const Problem& p, const Tiling& t, const Tensors& x, void* stream);

}  // namespace flashsim::gpu::fa3

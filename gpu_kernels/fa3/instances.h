// Which forward kernels are compiled, and the tiles they use. Host side; no CUDA type.
#pragma once

#include <string>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::fa3 {

/// Rows of Q, and of K and V, per tile for a padded head_dim of 64, 128 or 256.
constexpr int kBlockQ = 128;
/// Bytes of K and V that masked tiles of several heads, dealt out in turn, share in L2 beside everything
/// else.
constexpr std::int64_t kResidentBytes = 32 << 20;
constexpr int block_k(int head_dim) { return head_dim == 256 ? 64 : 128; }

/// e4m3: the largest P, in powers of two, while no score exceeds the maximum that P is relative to. With a
/// maximum of its own block P fills [0, 256]; with an older one, later scores may exceed it.
constexpr int kOnlineHeadroom = 8, kStaleHeadroom = 5;

struct Instance {
  bool dynamic = false;  ///< needs a counter in the workspace
  void (*launch)(const Problem& p, const Tensors& x, void* stream) = nullptr;  ///< null: not compiled
};

/// The kernel for a padded head_dim, masked (causal or windowed) or not.
Instance forward_fp16(int head_dim, bool masked);
Instance forward_bf16(int head_dim, bool masked);
/// For what fp8_quantise left in the workspace. online_max: with the maximum of every block.
Instance forward_fp8(int head_dim, bool masked, bool online_max = false);
/// The fp16, head_dim 128 kernel of that variant (see fa3.cu).
Instance forward_variant(const std::string& variant, bool masked);

}  // namespace flashsim::gpu::fa3

// The kernels in e4m3. head_dim 64 is padded to 128: 64 columns of one byte would be half of the swizzle's
// width.
#include "gpu_kernels/fa3/fp8_quantise.h"
#include "gpu_kernels/fa3/launch.cuh"

namespace flashsim::gpu::fa3 {
namespace {

/// Computes O (fp16) and LSE from what fp8_quantise left in `x.workspace`.
template <class C>
void launch_fp8_forward(const Problem& p, const Tensors& x, void* stream) {
  const Fp8Workspace w = fp8_workspace(p);
  char* base = static_cast<char*>(x.workspace);
  const auto floats_at = [&](std::int64_t i) { return reinterpret_cast<const float*>(base + i); };
  ForwardParams f = forward_params(p, C::block_q);
  f.o = x.o;
  f.lse = x.lse;
  f.counter = reinterpret_cast<int*>(base + w.counter);
  f.q_scale = floats_at(w.q_scale);
  f.k_scale = floats_at(w.k_scale);
  f.v_scale = floats_at(w.v_scale);
  f.k_blocks = w.k_blocks;
  const std::int64_t kv_heads = std::int64_t{p.batch} * p.heads_kv;
  launch_kernel<C>(f, tensor_map(base + w.q, Dtype::e4m3, f.heads, p.seqlen_q, w.dim, C::block_q),
                   tensor_map(base + w.k, Dtype::e4m3, kv_heads, p.seqlen_k, w.dim, C::block_k),
                   tensor_map(base + w.v, Dtype::e4m3, kv_heads, w.dim, w.keys, w.dim),
                   tensor_map(x.o, Dtype::fp16, f.heads, p.seqlen_q, p.head_dim, 16), stream);
}

template <int HeadDim, bool Masked>
using Fp8 = Config<__nv_fp8_e4m3, HeadDim, Fp8Workspace::block, Masked>;

}  // namespace

Instance forward_fp8(int head_dim, bool masked) {
  if (head_dim <= 128)
    return {true, masked ? launch_fp8_forward<Fp8<128, true>> : launch_fp8_forward<Fp8<128, false>>};
  return {true, masked ? launch_fp8_forward<Fp8<256, true>> : launch_fp8_forward<Fp8<256, false>>};
}

}  // namespace flashsim::gpu::fa3

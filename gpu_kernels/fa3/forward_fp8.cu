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
  f.head_dim = w.dim;  // of Q and K, which a repair reads
  f.q = base + w.q;
  f.k = base + w.k;
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
struct Fp8 : Config<__nv_fp8_e4m3, HeadDim, Fp8Workspace::block, Masked> {};
/// The paper's softmax. P needs its place in registers for longer, so there are none for a dynamic schedule.
template <int HeadDim, bool Masked>
struct OnlineMax : Fp8<HeadDim, Masked> {
  static constexpr bool stale_maximum = false;
  static constexpr int headroom = kOnlineHeadroom;
  static constexpr Schedule schedule = Schedule::fixed;
};

template <template <int, bool> class Kind>
Instance instance_of(int head_dim, bool masked) {
  if (head_dim <= 128)
    return {true, masked ? launch_fp8_forward<Kind<128, true>> : launch_fp8_forward<Kind<128, false>>};
  return {true, masked ? launch_fp8_forward<Kind<256, true>> : launch_fp8_forward<Kind<256, false>>};
}

}  // namespace

Instance forward_fp8(int head_dim, bool masked, bool online_max) {
  return online_max ? instance_of<OnlineMax>(head_dim, masked) : instance_of<Fp8>(head_dim, masked);
}

}  // namespace flashsim::gpu::fa3

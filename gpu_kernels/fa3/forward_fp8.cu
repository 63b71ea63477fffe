// The kernels in e4m3. head_dim 64 is padded to 128: 64 columns of one byte would be half of the swizzle's
// width.
#include "gpu_kernels/fa3/forward.cuh"

namespace flashsim::gpu::fa3 {
namespace {

/// The paper's softmax.
template <class E, int HeadDim, bool Masked>
struct OnlineMax : Config<E, HeadDim, Masked> {
  static constexpr bool stale_maximum = false;
  static constexpr int headroom = kOnlineHeadroom;
  static constexpr int early_exp = 8;
  static constexpr bool late_pv = false;
};

template <template <class, int, bool> class Kind>
Instance instance_of(int head_dim, bool masked) {
  return head_dim <= 128 ? instance<Kind, __nv_fp8_e4m3, 128>(masked)
                         : instance<Kind, __nv_fp8_e4m3, 256>(masked);
}

}  // namespace

Instance forward_fp8(int head_dim, bool masked, bool online_max) {
  return online_max ? instance_of<OnlineMax>(head_dim, masked) : instance_of<Config>(head_dim, masked);
}

}  // namespace flashsim::gpu::fa3

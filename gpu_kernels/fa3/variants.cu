// The fp16, head_dim 128 kernel with one idea left out at a time, so that each can be seen to pay.
#include "gpu_kernels/fa3/forward.cuh"

namespace flashsim::gpu::fa3 {
namespace {

/// The algorithm as published.
template <class E, int HeadDim, bool Masked>
struct OnlineMax : Config<E, HeadDim, Masked> {
  static constexpr bool stale_maximum = false, ping_pong = true;
  static constexpr int early_exp = Masked ? 8 : 2;  // masked, 2 would need a register more than there is
};
/// A computing thread loads in between, a thread block per tile: no producer, nothing to give registers to.
template <class E, int HeadDim, bool Masked>
struct NoSpecialisation : OnlineMax<E, HeadDim, Masked> {
  static constexpr bool specialised = false, q_in_registers = false;
  static constexpr int early_exp = 0;
  static constexpr Schedule schedule = Schedule::one_tile;
};
template <class E, int HeadDim, bool Masked>
struct NoPingPong : OnlineMax<E, HeadDim, Masked> {
  static constexpr bool ping_pong = false;
};
template <class E, int HeadDim, bool Masked>
struct NoOverlap : OnlineMax<E, HeadDim, Masked> {
  static constexpr bool overlap = false;
};
template <class E, int HeadDim, bool Masked>
struct Static : Config<E, HeadDim, Masked> {
  static constexpr Schedule schedule = Schedule::fixed;
};
template <class E, int HeadDim, bool Masked>
struct Dynamic : Config<E, HeadDim, Masked> {
  static constexpr Schedule schedule = Schedule::dynamic;
};

}  // namespace

Instance forward_variant(const std::string& variant, bool masked) {
  if (variant == "online-max") return instance<OnlineMax, __half, 128>(masked);
  if (variant == "no-specialisation") return instance<NoSpecialisation, __half, 128>(masked);
  if (variant == "no-pingpong") return instance<NoPingPong, __half, 128>(masked);
  if (variant == "no-overlap") return instance<NoOverlap, __half, 128>(masked);
  if (variant == "static") return instance<Static, __half, 128>(masked);
  if (variant == "dynamic") return instance<Dynamic, __half, 128>(masked);
  return {};
}

}  // namespace flashsim::gpu::fa3

// The fp16, head_dim 128 kernel with one idea left out at a time, so that each can be seen to pay.
#include "gpu_kernels/fa3/launch.cuh"

namespace flashsim::gpu::fa3 {
namespace {

template <bool Masked>
using Base = Best<__half, 128, Masked>;

/// The algorithm as published.
template <bool Masked>
struct OnlineMax : Base<Masked> {
  static constexpr bool stale_maximum = false, ping_pong = true;
  static constexpr int early_exp = Masked ? 8 : 2;  // masked, 2 would need a register more than there is
};
/// A computing thread loads in between, a thread block per tile: no producer, nothing to give registers to.
template <bool Masked>
struct NoSpecialisation : OnlineMax<Masked> {
  static constexpr bool specialised = false, q_in_registers = false;
  static constexpr int early_exp = 0;
  static constexpr Schedule schedule = Schedule::one_tile;
};
template <bool Masked>
struct NoPingPong : OnlineMax<Masked> {
  static constexpr bool ping_pong = false;
};
template <bool Masked>
struct NoOverlap : OnlineMax<Masked> {
  static constexpr bool overlap = false;
};
template <bool Masked>
struct Static : Base<Masked> {
  static constexpr Schedule schedule = Schedule::fixed;
};
template <bool Masked>
struct Dynamic : Base<Masked> {
  static constexpr Schedule schedule = Schedule::dynamic;
};

template <template <bool> class Variant>
Instance either(bool masked) {
  return masked ? instance<Variant<true>>() : instance<Variant<false>>();
}

}  // namespace

Instance forward_variant(const std::string& variant, bool masked) {
  if (variant == "online-max") return either<OnlineMax>(masked);
  if (variant == "no-specialisation") return either<NoSpecialisation>(masked);
  if (variant == "no-pingpong") return either<NoPingPong>(masked);
  if (variant == "no-overlap") return either<NoOverlap>(masked);
  if (variant == "static") return either<Static>(masked);
  if (variant == "dynamic") return either<Dynamic>(masked);
  return {};
}

}  // namespace flashsim::gpu::fa3

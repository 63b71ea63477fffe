// Which of the forward kernels runs for a head_dim, with the tiling of tilings.h.
#pragma once

#include "gpu_kernels/fa2/forward.cuh"
#include "gpu_kernels/fa2/forward_pairs.cuh"
#include "gpu_kernels/fa2/tilings.h"

namespace flashsim::gpu::fa2 {

/// Launches on `stream`; the problem has no fault.
template <class T>
void launch_chosen_forward(const Problem& p, const Tiling& t, const Tensors& x, void* stream) {
  const auto launch_choice = [&](auto index) {
    constexpr ForwardChoice c = forward_choices[decltype(index)::value];
    launch_forward<T, ForwardTiling<c.head_dim, c.block_q, c.block_k, c.warps, c.blocks_per_sm>>(p, t, x,
                                                                                                 stream);
  };
  switch (choice_of(padded_head_dim(p.head_dim))) {
    case 0: return launch_choice(std::integral_constant<int, 0>());
    case 1: return launch_choice(std::integral_constant<int, 1>());
    default: {
      constexpr ForwardChoice c = forward_choices[2];
      using Compiled = PairTiling<c.head_dim, c.block_q, c.block_k, c.blocks_per_sm>;
      static_assert(Compiled::head_dim == c.head_dim && Compiled::warps == c.warps, "");
      return launch_forward_pairs<T, Compiled>(p, t, x, stream);
    }
  }
}

}  // namespace flashsim::gpu::fa2

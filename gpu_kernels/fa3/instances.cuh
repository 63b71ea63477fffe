// Config to Instance.
#pragma once

#include "gpu_kernels/fa3/instances.h"
#include "gpu_kernels/fa3/launch.cuh"

namespace flashsim::gpu::fa3 {

template <class E, int HeadDim, bool Masked>
using Best = Config<E, HeadDim, block_q(HeadDim), block_k(HeadDim), Masked>;

template <class C>
Instance instance() {
  return {C::schedule == Schedule::dynamic, launch_forward<C>};
}

template <class E>
Instance forward_for(int head_dim, bool masked) {
  if (head_dim == 64) return masked ? instance<Best<E, 64, true>>() : instance<Best<E, 64, false>>();
  if (head_dim == 128) return masked ? instance<Best<E, 128, true>>() : instance<Best<E, 128, false>>();
  return masked ? instance<Best<E, 256, true>>() : instance<Best<E, 256, false>>();
}

}  // namespace flashsim::gpu::fa3

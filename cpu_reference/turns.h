// In which order the thread blocks of a launch start where heads take turns (Tiling::heads_together): the
// same for the kernels and for the L2 model. Plain C++17 without dependencies, as problem.h.
#pragma once

namespace flashsim {

/// A thread block's head and its block of rows, counted in the order in which the head's blocks start.
template <class Int>
struct Turn {
  Int head, block;
};
/// What the n-th thread block of a launch works on: `heads_together` of the `heads` take one block each in
/// turn until their `blocks` are done, then the next heads do; the last heads may be fewer.
template <class Int>
constexpr Turn<Int> turn_of(Int n, Int heads, Int heads_together, Int blocks) {
  const Int first = n / (heads_together * blocks) * heads_together, rest = n % (heads_together * blocks);
  const Int turns = heads - first < heads_together ? heads - first : heads_together;
  return {first + rest % turns, rest / turns};
}

}  // namespace flashsim

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
/// The same, but the last `late` blocks of every head are kept for the end of the launch, when all heads take
/// one in turn: with a causal mask and the longest blocks first they are the shortest, which even out when
/// SMs end. (Tiling::late_blocks.)
template <class Int>
constexpr Turn<Int> turn_of(Int n, Int heads, Int heads_together, Int blocks, Int late) {
  const Int rest = n - heads * (blocks - late);
  if (late == 0 || rest < 0) return turn_of(n, heads, heads_together, blocks - late);
  return {rest % heads, blocks - late + rest / heads};
}

}  // namespace flashsim

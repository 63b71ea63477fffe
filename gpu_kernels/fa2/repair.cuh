// The backward pass over problems with Inf or NaN.
//
// A pair that the mask hides has P = dS = 0, but 0 x Inf is NaN: products over whole tiles would carry an Inf
// of Q, K or dO into gradients of rows and keys that must not know of it. The main kernel therefore raises a
// flag when it meets one, and the convert kernel then computes the gradients again, one visible pair at a
// time. That is slow (no tensor cores, every score twice), which only inputs without a meaningful gradient
// pay. Looking for them is nearly free: Inf and NaN in Q show in LSE, those in dO show in D, and a tile of K
// is looked through once.
//
// A row whose visible scores are all -inf (LSE = -inf) gives and gets nothing, as in the reference.
#pragma once

#include <math_constants.h>

#include "cpu_reference/philox.h"
#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/common/tile.cuh"
#include "gpu_kernels/fa2/non_finite.cuh"

namespace flashsim::gpu::fa2 {

/// Whether query q's statistics tell of Inf or NaN in its row of Q or dO. Scores of a row of Q with Inf or
/// NaN are all infinite or NaN; LSE is then NaN or infinite, and -inf otherwise only where the row sees
/// nothing.
__device__ __forceinline__ bool needs_repair(const Shape& s, int q, float lse, float d) {
  if (!is_finite(d)) return true;
  return !is_finite(lse) && !(lse == -CUDART_INF_F && s.first_key(q) >= s.end_key(q));
}

/// P after dropout and dS of one visible pair; `head` counts query heads over the batch. Both unscaled by
/// 1 / (1 - p) and by the softmax scale.
template <class P>
__device__ float2 pair_of(const P& p, int head, int q, int key, float lse, float d) {
  const Shape& s = p.shape;
  const int64_t row = (int64_t{head} * s.seqlen_q + q) * s.head_dim;
  const int64_t col = (int64_t{head / s.group} * s.seqlen_k + key) * s.head_dim;
  float score = 0, dp = 0;
  for (int c = 0; c < s.head_dim; ++c) {
    score += static_cast<float>(p.q[row + c]) * static_cast<float>(p.k[col + c]);
    dp += static_cast<float>(p.d_o[row + c]) * static_cast<float>(p.v[col + c]);
  }
  const float prob = exp2_approx(fmaf(score, s.scale_log2, -lse * 1.4426950408889634f));
  const bool kept =
      s.dropout_threshold == 0 || dropout_keeps(s.dropout_seed, s.dropout_threshold, head, q, key);
  const float factor = kept ? 1.0f : 0.0f;  // multiplied: what is dropped makes NaN of Inf
  return {prob * factor, prob * (dp * factor * s.keep_scale - d)};
}

/// dQ of one query. All THREADS >= head_dim threads call it.
template <int THREADS, class P>
__device__ void repair_dq(const P& p, int head, int q, float* ds) {
  const Shape& s = p.shape;
  const int64_t row = int64_t{head} * s.seqlen_q + q;
  const int thread = threadIdx.x, end = s.end_key(q);
  const float lse = p.lse[row], d = p.d[row];
  float sum = 0;
  for (int first = s.first_key(q); first < end && lse != -CUDART_INF_F; first += THREADS) {
    if (first + thread < end) ds[thread] = pair_of(p, head, q, first + thread, lse, d).y;
    __syncthreads();
    for (int i = 0; thread < s.head_dim && i < min(THREADS, end - first); ++i)
      sum += ds[i] * static_cast<float>(
                         p.k[(int64_t{head / s.group} * s.seqlen_k + first + i) * s.head_dim + thread]);
    __syncthreads();
  }
  using T = std::remove_pointer_t<decltype(p.dq)>;
  if (thread < s.head_dim) p.dq[row * s.head_dim + thread] = T(sum * s.scale);
}

/// dK and dV of one key; `head_kv` counts K/V heads over the batch.
template <int THREADS, class P>
__device__ void repair_dkv(const P& p, int head_kv, int key, float2* pairs) {
  const Shape& s = p.shape;
  const int thread = threadIdx.x, end = s.end_query(key);
  float dk = 0, dv = 0;
  for (int head = head_kv * s.group; head < (head_kv + 1) * s.group; ++head)
    for (int first = s.first_query(key); first < end; first += THREADS) {
      const float* lse = p.lse + int64_t{head} * s.seqlen_q + first;
      if (first + thread < end)
        pairs[thread] = pair_of(p, head, first + thread, key, lse[thread], p.d[lse + thread - p.lse]);
      __syncthreads();
      for (int i = 0; thread < s.head_dim && i < min(THREADS, end - first); ++i) {
        if (lse[i] == -CUDART_INF_F) continue;
        const int64_t at = (int64_t{head} * s.seqlen_q + first + i) * s.head_dim + thread;
        dv += pairs[i].x * static_cast<float>(p.d_o[at]);
        dk += pairs[i].y * static_cast<float>(p.q[at]);
      }
      __syncthreads();
    }
  using T = std::remove_pointer_t<decltype(p.dk)>;
  const int64_t at = (int64_t{head_kv} * s.seqlen_k + key) * s.head_dim + thread;
  if (thread < s.head_dim) {
    p.dk[at] = T(dk * s.scale);
    p.dv[at] = T(dv * s.keep_scale);
  }
}

}  // namespace flashsim::gpu::fa2

// From a Config to a launch. Host side.
#pragma once

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/fa3/forward.cuh"
#include "gpu_kernels/fa3/instances.h"

namespace flashsim::gpu::fa3 {

/// (heads, rows, columns), contiguous, seen by TMA in boxes of box_rows x 128 bytes.
CUtensorMap tensor_map(const void* data, Dtype dtype, std::int64_t heads, int rows, int columns,
                       int box_rows);
/// What the kernel needs to know of `p`, but for the pointers.
ForwardParams forward_params(const Problem& p, int block_q);

template <class C>
void launch_kernel(const ForwardParams& f, const CUtensorMap& q, const CUtensorMap& k, const CUtensorMap& v,
                   const CUtensorMap& o, void* stream) {
  using D = Derived<C>;
  static_assert(sizeof(Shared<C>) + D::alignment <= D::shared_bytes);
  int device = 0, sms = 0;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  if (C::schedule == Schedule::dynamic)
    FLASHSIM_CUDA_CHECK(cudaMemsetAsync(f.counter, 0, sizeof(int), static_cast<cudaStream_t>(stream)));
  const int grid = C::schedule == Schedule::one_tile ? f.tiles : std::min(f.tiles, sms);
  launch("fa3 forward", forward<C>, dim3(grid), D::threads, D::shared_bytes, stream, q, k, v, o, f);
}

/// Computes O and LSE. `x.workspace` holds the dynamic schedule's counter.
template <class C>
void launch_forward(const Problem& p, const Tensors& x, void* stream) {
  ForwardParams f = forward_params(p, C::block_q);
  f.q = x.q;
  f.k = x.k;
  f.v = x.v;
  f.o = x.o;
  f.lse = x.lse;
  f.counter = static_cast<int*>(x.workspace);
  const std::int64_t kv_heads = std::int64_t{p.batch} * p.heads_kv;
  launch_kernel<C>(f, tensor_map(x.q, p.dtype, f.heads, p.seqlen_q, p.head_dim, C::block_q),
                   tensor_map(x.k, p.dtype, kv_heads, p.seqlen_k, p.head_dim, C::block_k),
                   tensor_map(x.v, p.dtype, kv_heads, p.seqlen_k, p.head_dim, C::block_k),
                   tensor_map(x.o, p.dtype, f.heads, p.seqlen_q, p.head_dim, 16), stream);
}

template <class E, int HeadDim, bool Masked>
using Best = Config<E, HeadDim, block_k(HeadDim), Masked>;

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

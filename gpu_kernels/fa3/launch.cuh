// Host side of the forward kernel: tensor maps, parameters, launch.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/fa3/forward.cuh"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu::fa3 {

/// The driver's encoder, found at run time so that nothing links against the driver.
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  static const auto encode = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found;
    FLASHSIM_CUDA_CHECK(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess)
      throw CudaError("the driver has no cuTensorMapEncodeTiled; install one that supports CUDA 12.0");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(f);
  }();
  return encode;
}

/// (heads, rows, columns), contiguous, seen by TMA in boxes of box_rows x 128 bytes.
inline CUtensorMap tensor_map(const void* data, Dtype dtype, std::int64_t heads, int rows, int columns,
                              int box_rows) {
  const cuuint64_t bytes = bytes_of(dtype);
  const cuuint64_t dims[3] = {cuuint64_t(columns), cuuint64_t(rows), cuuint64_t(heads)};
  const cuuint64_t strides[2] = {columns * bytes, columns * bytes * rows};
  const cuuint32_t box[3] = {cuuint32_t(128 / bytes), cuuint32_t(box_rows), 1}, steps[3] = {1, 1, 1};
  const CUtensorMapDataType type = dtype == Dtype::fp16   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                   : dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                          : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  CUtensorMap map;
  const CUresult result = tensor_map_encoder()(
      &map, type, 3, const_cast<void*>(data), dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw CudaError("cuTensorMapEncodeTiled: error " + std::to_string(int(result)) + " for " +
                    std::to_string(heads) + " heads of " + std::to_string(rows) + " x " +
                    std::to_string(columns));
  return map;
}

/// What the kernel needs to know of `p`, but for the pointers.
inline ForwardParams forward_params(const Problem& p, int block_q) {
  constexpr int kNoLimit = 1 << 30;
  constexpr std::int64_t kResident = 32 << 20;  // bytes of K and V that stay in L2 beside everything else
  ForwardParams f{};
  f.seqlen_q = p.seqlen_q;
  f.seqlen_k = p.seqlen_k;
  f.head_dim = p.head_dim;
  f.group = p.group();
  f.heads = p.batch * p.heads_q;
  f.q_tiles = (p.seqlen_q + block_q - 1) / block_q;
  f.tiles = f.q_tiles * f.heads;
  const std::int64_t head_bytes = std::int64_t{2} * p.seqlen_k * p.head_dim * bytes_of(p.dtype);
  f.section =
      int(std::min<std::int64_t>(std::max<std::int64_t>(1, kResident / head_bytes) * f.group, f.heads));
  f.first_key = p.window_left < 0 ? -kNoLimit : p.shift() - p.window_left;
  f.end_key = p.causal ? p.shift() + 1 : p.window_right < 0 ? kNoLimit : p.shift() + 1 + p.window_right;
  f.scale = float(scale_of(p));
  f.scale_log2 = float(scale_of(p) * 1.4426950408889634);
  return f;
}

/// Computes O and LSE. `x.workspace` holds the dynamic schedule's counter.
template <class C>
void launch_forward(const Problem& p, const Tensors& x, void* stream) {
  using D = Derived<C>;
  static_assert(sizeof(Shared<C>) + D::alignment <= D::shared_bytes);
  ForwardParams f = forward_params(p, C::block_q);
  f.q = x.q;
  f.k = x.k;
  f.o = x.o;
  f.lse = x.lse;
  f.counter = static_cast<int*>(x.workspace);
  const std::int64_t kv_heads = std::int64_t{p.batch} * p.heads_kv;
  const CUtensorMap q = tensor_map(x.q, p.dtype, f.heads, p.seqlen_q, p.head_dim, C::block_q);
  const CUtensorMap k = tensor_map(x.k, p.dtype, kv_heads, p.seqlen_k, p.head_dim, C::block_k);
  const CUtensorMap v = tensor_map(x.v, p.dtype, kv_heads, p.seqlen_k, p.head_dim, C::block_k);

  int device = 0, sms = 0;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  if (C::schedule == Schedule::dynamic)
    FLASHSIM_CUDA_CHECK(cudaMemsetAsync(f.counter, 0, sizeof(int), static_cast<cudaStream_t>(stream)));
  const int grid = C::schedule == Schedule::one_tile ? f.tiles : std::min(f.tiles, sms);
  launch("fa3 forward", forward<C>, dim3(grid), D::threads, D::shared_bytes, stream, q, k, v, f);
}

}  // namespace flashsim::gpu::fa3

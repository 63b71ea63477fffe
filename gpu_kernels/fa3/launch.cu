// Host side of the forward kernel that depends on no Config: tensor maps and parameters.
#include <cudaTypedefs.h>

#include <string>

#include "gpu_kernels/fa3/instances.h"
#include "gpu_kernels/fa3/launch.cuh"

namespace flashsim::gpu::fa3 {
namespace {

/// The driver's encoder, found at run time so that nothing links against the driver.
PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
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

}  // namespace

CUtensorMap tensor_map(const void* data, Dtype dtype, std::int64_t heads, int rows, int columns,
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

ForwardParams forward_params(const Problem& p, int block_q) {
  constexpr int kNoLimit = 1 << 30;
  ForwardParams f{};
  f.seqlen_q = p.seqlen_q;
  f.seqlen_k = p.seqlen_k;
  f.head_dim = p.head_dim;
  f.group = p.group();
  f.heads = p.batch * p.heads_q;
  f.q_tiles = (p.seqlen_q + block_q - 1) / block_q;
  f.tiles = f.q_tiles * f.heads;
  f.section = heads_within(p, kResidentBytes);
  f.first_key = p.window_left < 0 ? -kNoLimit : p.shift() - p.window_left;
  f.end_key = p.causal ? p.shift() + 1 : p.window_right < 0 ? kNoLimit : p.shift() + 1 + p.window_right;
  f.scale_log2 = float(scale_of(p) * 1.4426950408889634);
  return f;
}

}  // namespace flashsim::gpu::fa3

// Host side of the forward kernel: tensor maps, parameters and the launch.
#include <cudaTypedefs.h>

#include <algorithm>
#include <string>

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/fa3/instances.h"
#include "gpu_kernels/fa3/schedule.cuh"
#include "gpu_kernels/fa3/tma.cuh"

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

/// (heads, rows, columns), contiguous, seen by TMA in boxes of box_rows x 128 bytes.
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

/// What the kernel needs to know of `p` and `t`, but for the pointers.
ForwardParams params_of(const Problem& p, const Tiling& t) {
  ForwardParams f{};
  static_cast<Shape&>(f) = shape_of(p);
  f.heads = p.batch * p.heads_q;
  f.q_tiles = ceil_div(p.seqlen_q, kBlockQ);
  f.tiles = f.q_tiles * f.heads;
  f.section = std::min(t.heads_together, f.heads);
  f.late = std::min(t.late_blocks, f.q_tiles);
  f.first_tile = t.order == BlockOrder::last_to_first ? f.q_tiles - 1 : 0;
  return f;
}

}  // namespace

void launch_forward(const Instance& instance, const Problem& p, const Tiling& t, const Tensors& x,
                    void* stream) {
  ForwardParams f = params_of(p, t);
  f.q = x.q, f.k = x.k, f.v = x.v, f.o = x.o, f.lse = x.lse;
  char* workspace = static_cast<char*>(x.workspace);
  const auto at = [&](std::int64_t bytes) { return reinterpret_cast<const float*>(workspace + bytes); };
  const std::int64_t kv_heads = std::int64_t{p.batch} * p.heads_kv;
  std::int64_t v_rows = p.seqlen_k, v_columns = p.head_dim, counter = 0;
  int v_box = instance.block_k;
  if (p.dtype == Dtype::e4m3) {
    const Fp8Workspace w = fp8_workspace(p);
    f.q = at(w.q), f.k = at(w.k), f.v = at(w.v), f.head_dim = w.dim;
    f.q_scale = at(w.q_scale), f.k_scale = at(w.k_scale), f.v_scale = at(w.v_scale), f.k_blocks = w.k_blocks;
    v_rows = v_box = w.dim, v_columns = w.keys, counter = w.counter;
  }
  f.counter = reinterpret_cast<unsigned long long*>(workspace + counter);
  const Maps maps{
      tensor_map(f.q, p.dtype, f.heads, p.seqlen_q, f.head_dim, kBlockQ),
      tensor_map(f.k, p.dtype, kv_heads, p.seqlen_k, f.head_dim, instance.block_k),
      tensor_map(f.v, p.dtype, kv_heads, v_rows, v_columns, v_box),
      tensor_map(f.o, p.dtype == Dtype::e4m3 ? Dtype::fp16 : p.dtype, f.heads, p.seqlen_q, p.head_dim, 16)};
  int device = 0, sms = 0;
  FLASHSIM_CUDA_CHECK(cudaGetDevice(&device));
  FLASHSIM_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  const int grid = instance.schedule == Schedule::one_tile ? f.tiles : std::min(f.tiles, sms);
  launch("fa3 forward", instance.kernel, dim3(grid), instance.threads, instance.shared_bytes, stream, maps,
         f);
}

}  // namespace flashsim::gpu::fa3

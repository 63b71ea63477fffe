// Flash-Decoding (Dao, Haziza, Massa, Sizov 2023): few queries, many keys. One query leaves FA2 one thread
// block a head, which cannot draw the memory's bandwidth. So the keys are split over thread blocks, each
// writes its own O (normalised) and LSE in fp32, and a second kernel merges them: online softmax once more,
// over parts instead of keys.
//
// Requested bytes per K/V head, with R = seqlen_q * group packed rows in ceil(R / 16) row blocks, S splits:
//   split  per row block 2 e n_k d (only visible tiles) + S e d R_block read; S R (4 d + 4) written
//   merge  S R (4 d + 4) read, e R d (+ 4 R for LSE) written
// With one split: no merge, O (and LSE) written directly. K and V, 2 e n_k d, are nearly all of it: the bound
// is the memory's read bandwidth.
//
// What still hurts: more than 16 packed rows read K and V once per 16 rows (from L2 at best); the merge is a
// launch of its own, several microseconds that show below some 16k keys.
#include <cuda_runtime.h>

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/dispatch.h"
#include "gpu_kernels/common/registry.h"
#include "gpu_kernels/decoding/split.cuh"

namespace flashsim::gpu {
namespace decoding {
namespace {

constexpr int kMergeThreads = 256, kMostSplits = 8192;

/// Grid: batch * heads_kv * packed rows. kDim / 4 threads take the columns of a part, groups of them
/// different parts.
template <class T, int kDim>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(Shape s, Arguments<T> x) {
  constexpr int across = kDim / 4, slices = kMergeThreads / across;
  __shared__ float4 partial[slices][across];
  __shared__ float reduced[kMergeThreads / 32];
  extern __shared__ float weight[];  // of each split
  const int packed_rows = s.seqlen_q * s.group;
  const std::int64_t row = blockIdx.x, out = query_row(s, row / packed_rows, int(row % packed_rows));
  const float* const lse_part = x.lse_part + row * x.splits;

  const auto reduce = [&](float value, auto combine) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
      value = combine(value, __shfl_xor_sync(0xffffffffu, value, lanes));
    __syncthreads();
    if (threadIdx.x % 32 == 0) reduced[threadIdx.x / 32] = value;
    __syncthreads();
    value = reduced[0];
#pragma unroll
    for (int w = 1; w < kMergeThreads / 32; ++w) value = combine(value, reduced[w]);
    return value;
  };
  float maximum = -INFINITY;
  for (int i = threadIdx.x; i < x.splits; i += kMergeThreads) {
    weight[i] = load_cg(lse_part + i);
    maximum = fmaxf(maximum, weight[i]);
  }
  maximum = reduce(maximum, [](float a, float b) { return fmaxf(a, b); });
  const float shown = maximum == -INFINITY ? 0 : maximum;
  float sum = 0;
  for (int i = threadIdx.x; i < x.splits; i += kMergeThreads) {
    weight[i] = __expf(weight[i] - shown);  // a NaN stays one
    sum += weight[i];
  }
  sum = reduce(sum, [](float a, float b) { return a + b; });  // its barriers publish the weights

  const int slice = threadIdx.x / across, col = threadIdx.x % across * 4;
  float4 total = make_float4(0, 0, 0, 0);
  if (col < s.head_dim) {
    const float4* const parts = reinterpret_cast<const float4*>(x.o_part + row * x.splits * s.head_dim + col);
#pragma unroll 8
    for (int i = slice; i < x.splits; i += slices) {
      const float4 part = __ldcg(parts + std::int64_t{i} * (s.head_dim / 4));
      const float w = weight[i];
      total.x += w * part.x, total.y += w * part.y, total.z += w * part.z, total.w += w * part.w;
    }
  }
  partial[slice][threadIdx.x % across] = total;
  __syncthreads();
  if (slice == 0 && col < s.head_dim) {
#pragma unroll
    for (int i = 1; i < slices; ++i) {
      const float4 part = partial[i][threadIdx.x];
      total.x += part.x, total.y += part.y, total.z += part.z, total.w += part.w;
    }
    const float inverse = sum == 0 ? 0 : __fdividef(1, sum);
    *reinterpret_cast<uint2*>(x.o + out * s.head_dim + col) = make_uint2(
        pack<T>(total.x * inverse, total.y * inverse), pack<T>(total.z * inverse, total.w * inverse));
  }
  if (x.lse != nullptr && threadIdx.x == 0) x.lse[out] = sum == 0 ? -INFINITY : maximum + __logf(sum);
}

std::int64_t packed_rows(const Problem& p) { return std::int64_t{p.seqlen_q} * p.group(); }
std::int64_t units(const Problem& p) {
  return std::int64_t{p.batch} * p.heads_kv * ((packed_rows(p) + kRows - 1) / kRows);
}
int tile_keys(const Problem& p) { return block_k(padded_head_dim(p.head_dim)); }

std::string fault(const Problem& p, const Tiling& t, Pass pass) {
  std::string found = fault_of_16_bit_problem(p);
  if (found.empty()) found = fault_of(t);
  if (found.empty()) found = fault_of_blocks(t, kRows, tile_keys(p));
  if (found.empty()) found = fault_of_order(t);
  if (!found.empty()) return found;
  if (pass == Pass::backward) return "decoding is inference: it has no backward pass";
  if (p.dropout_p > 0) return "decoding is inference: it has no dropout";
  if (t.num_splits > kMostSplits) return "at most " + std::to_string(kMostSplits) + " splits can be merged";
  if (packed_rows(p) > max_seqlen)
    return "seqlen_q * (heads_q / heads_kv) is longer than " + std::to_string(max_seqlen);
  found = fault_of_grid(units(p) * t.num_splits);
  return !found.empty() ? found : fault_of_grid(packed_rows(p) * p.batch * p.heads_kv);
}

int sm_count() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    cudaGetLastError();
    return 132;  // no GPU here: as on an H100 or H200
  }
  return count;
}

Tiling tiling(const Problem& p, Pass) {
  const int dim = padded_head_dim(p.head_dim);
  Tiling t;
  t.block_q = kRows;
  t.block_k = block_k(dim);
  t.stages = stages(dim);
  t.warps = kWarps;
  t.split = WarpSplit::key;
  t.num_splits =
      choose_num_splits(units(p), ceil_div(p.seqlen_k, t.block_k), sm_count() * decoding_blocks_per_sm(dim));
  return t;
}

/// Floats of O_part, rounded up so that LSE_part behind it starts at 16 bytes.
std::size_t o_part_floats(const Problem& p, int splits) {
  return std::size_t(packed_rows(p)) * p.batch * p.heads_kv * splits * p.head_dim;
}

std::size_t workspace_bytes(const Problem& p, const Tiling& t, Pass) {
  const int splits = splits_in_use(ceil_div(p.seqlen_k, t.block_k), t.num_splits);
  if (splits == 1) return 0;
  return (o_part_floats(p, splits) + o_part_floats(p, splits) / p.head_dim) * sizeof(float);
}

void run(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream) {
  const char* const name = "decoding";
  refuse_faults(name, fault(p, t, pass));
  need(x.q, name, "q"), need(x.k, name, "k"), need(x.v, name, "v"), need(x.o, name, "o");
  const int tiles = ceil_div(p.seqlen_k, t.block_k), splits = splits_in_use(tiles, t.num_splits);
  if (splits > 1) need(x.workspace, name, "workspace");
  const Shape s = shape_of(p);
  with_type_and_dim(p, [&](auto type, auto dim) {
    using T = typename decltype(type)::type;
    Arguments<T> a{};
    a.q = static_cast<const T*>(x.q), a.k = static_cast<const T*>(x.k), a.v = static_cast<const T*>(x.v);
    a.o = static_cast<T*>(x.o), a.lse = x.lse;
    a.splits = splits, a.tiles_per_split = tiles_per_split(tiles, t.num_splits);
    if (splits > 1) {
      a.o_part = static_cast<float*>(x.workspace);
      a.lse_part = a.o_part + o_part_floats(p, splits);
    }
    launch("decoding, split", split_kernel<T, dim>, dim3(unsigned(units(p) * splits)), kThreads,
           sizeof(Shared<T, dim>), stream, s, a);
    if (splits > 1)
      launch("decoding, merge", merge_kernel<T, dim>, dim3(unsigned(packed_rows(p) * p.batch * p.heads_kv)),
             kMergeThreads, splits * sizeof(float), stream, s, a);
  });
}

}  // namespace
}  // namespace decoding

std::vector<Kernel> decoding_kernels() {
  return {{"decoding", "", "keys split over thread blocks, parts merged: few queries at full bandwidth",
           decoding::fault, decoding::tiling, decoding::workspace_bytes, decoding::run}};
}

}  // namespace flashsim::gpu

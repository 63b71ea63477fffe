// The backward's two small kernels, one before and one after the products: what is computed a row of Q at a
// time.
//
// Traffic: prepare reads O and dO, writes D and zeroes the sum of dQ; convert reads the sum and writes dQ.
// The sum comes in groups of 16 rows, so that it has up to 15 more rows than dQ.
#pragma once

#include <algorithm>

#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/common/tile.cuh"
#include "gpu_kernels/fa2/repair.cuh"

namespace flashsim::gpu::fa2 {

template <class T>
struct BackwardParameters {
  Shape shape;
  const T *q, *k, *v, *o, *d_o;
  const float* lse;
  T *dq, *dk, *dv;
  float *sum, *d;
  unsigned* repair;  ///< not 0 where repair.cuh must compute the gradients anew
  unsigned* turns;   ///< null: dQ in any order. Else a counter per row block, and the ticket counter last
  int row_groups, row_blocks, col_blocks;
  bool last_to_first;
  int64_t whole_rows;  ///< the first rows of LSE and D, of all heads, that come in whole pieces of 16 bytes
};

constexpr int prepare_rows = 64, prepare_threads = 256;

/// D of 64 rows, one warp a row at a time in 16-byte pieces; zeroes the rows' part of the sum and the turns.
template <class T>
__global__ void __launch_bounds__(prepare_threads) prepare_kernel(const BackwardParameters<T> p) {
  __shared__ float d_rows[prepare_rows];  // D leaves 32 rows a warp, not a sector for every row
  const Shape& s = p.shape;
  const int blocks = (s.seqlen_q + prepare_rows - 1) / prepare_rows;
  const int64_t head = blockIdx.x / blocks;
  const int first = blockIdx.x % blocks * prepare_rows, thread = threadIdx.x;
  const int rows = min(prepare_rows, s.seqlen_q - first);

  // A row is read by 8, 16 or 32 lanes, 8 values each.
  const int lanes = padded_head_dim(s.head_dim) / 8, lane = thread % lanes;
  for (int base = 0; base < rows; base += prepare_threads / lanes) {
    const int row = base + thread / lanes;
    float sum = 0;
    if (row < rows && lane * 8 < s.head_dim) {
      const int64_t at = (head * s.seqlen_q + first + row) * s.head_dim + lane * 8;
      const uint4 x = load_cg(reinterpret_cast<const uint4*>(p.o + at));
      const uint4 y = load_cg(reinterpret_cast<const uint4*>(p.d_o + at));
      const uint32_t a[4] = {x.x, x.y, x.z, x.w}, b[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 u = unpack<T>(a[i]), w = unpack<T>(b[i]);
        sum = fmaf(u.x, w.x, fmaf(u.y, w.y, sum));
      }
    }
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0 && row < rows) d_rows[row] = sum;
  }
  __syncthreads();
  if (thread < rows) p.d[head * s.seqlen_q + first + thread] = d_rows[thread];

  float4* zero = reinterpret_cast<float4*>(p.sum + (head * p.row_groups * 16 + first) * s.head_dim);
  const int count = min(prepare_rows, p.row_groups * 16 - first) * s.head_dim / 4;
  for (int i = thread; i < count; i += prepare_threads) zero[i] = make_float4(0, 0, 0, 0);

  if (blockIdx.x == 0 && thread == 0) *p.repair = 0;
  if (p.turns != nullptr) {
    const int64_t turns = int64_t{s.batch} * s.heads_q * p.row_blocks + 1;
    const int64_t step = int64_t{gridDim.x} * prepare_threads;
    for (int64_t i = int64_t{blockIdx.x} * prepare_threads + thread; i < turns; i += step) p.turns[i] = 0;
  }
}

constexpr int convert_rows = 64, convert_threads = 256;

/// 64 rows of dQ: from C fragments in fp32 to rows of T, turned around in shared memory.
template <class T>
__global__ void __launch_bounds__(convert_threads) convert_kernel(const BackwardParameters<T> p) {
  extern __shared__ __align__(128) unsigned char shared[];
  uint32_t* tile = reinterpret_cast<uint32_t*>(shared);  // (rows, head_dim / 2) pairs
  const Shape& s = p.shape;
  const int blocks = (s.seqlen_q + convert_rows - 1) / convert_rows;
  const int64_t head = blockIdx.x / blocks;
  const int first = blockIdx.x % blocks * convert_rows;
  __shared__ unsigned damaged;  // read once a block: every warp's own read would be a sector more
  if (threadIdx.x == 0) damaged = __ldcg(p.repair);
  __syncthreads();
  if (damaged != 0) {  // the sum is of no use, see repair.cuh
    const int end = min(first + convert_rows, s.seqlen_q);
    for (int q = first; q < end; ++q)
      repair_dq<convert_threads>(p, static_cast<int>(head), q, reinterpret_cast<float*>(shared));
    const int64_t keys = int64_t{s.batch} * s.heads_kv * s.seqlen_k;
    for (int64_t i = blockIdx.x; i < keys; i += gridDim.x)
      repair_dkv<convert_threads>(p, static_cast<int>(i / s.seqlen_k), static_cast<int>(i % s.seqlen_k),
                                  reinterpret_cast<float2*>(shared));
    return;
  }
  const int rows = min(convert_rows, s.seqlen_q - first), fragments = s.head_dim / 8, pairs = s.head_dim / 2;
  const float4* sum =
      reinterpret_cast<const float4*>(p.sum + (head * p.row_groups * 16 + first) * s.head_dim);
  const int count = (rows + 15) / 16 * fragments * 32;
  for (int i = threadIdx.x; i < count; i += convert_threads) {
    const float4 x = __ldcg(sum + i);
    const int lane = i % 32, fragment = i / 32;
    uint32_t* at =
        tile + (fragment / fragments * 16 + lane / 4) * pairs + fragment % fragments * 4 + lane % 4;
    at[0] = pack<T>(x.x * s.scale, x.y * s.scale);
    at[8 * pairs] = pack<T>(x.z * s.scale, x.w * s.scale);
  }
  __syncthreads();
  uint4* dq = reinterpret_cast<uint4*>(p.dq + (head * s.seqlen_q + first) * s.head_dim);
  for (int i = threadIdx.x; i < rows * fragments; i += convert_threads)
    dq[i] = reinterpret_cast<const uint4*>(tile)[i];
}

}  // namespace flashsim::gpu::fa2

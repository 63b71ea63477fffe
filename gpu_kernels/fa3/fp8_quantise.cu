// Quantisation to e4m3. Q and K: random signs and a Hadamard matrix spread outliers over the row without
// changing Q K^T (incoherent processing); then one scale a block of rows. V: one scale a head, transposed,
// because the tensor cores take 8-bit operands only with the summed dimension contiguous, and with the keys
// of every 16 reordered so that P's accumulators are, as they stand, the operand that meets them.
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cpu_reference/philox.h"
#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/ptx.cuh"
#include "gpu_kernels/fa3/instances.h"

namespace flashsim::gpu::fa3 {
namespace {

constexpr int kBlock = kFp8Block;
constexpr float kLargest = 448.f;  // of e4m3

struct Signs {
  std::uint32_t word[8];  // bit i: the sign of column i
};

__device__ __forceinline__ float warp_max(float x) {
  for (int i = 16; i > 0; i /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
  return x;
}
__device__ __forceinline__ float scale_for(float largest) { return largest > 0.f ? largest / kLargest : 1.f; }
/// Non-negative floats are ordered as their bits.
__device__ __forceinline__ void atomic_max(float* p, float x) {
  atomicMax(reinterpret_cast<int*>(p), __float_as_int(x));
}

/// A thread block a block of rows, a warp a row at a time; lane i holds Dim / 32 columns.
/// find: only raises maximum[head]. Else scale is from maximum[head], or of these rows where maximum is null.
template <int Dim>
__global__ void __launch_bounds__(512)
    quantise_rows(const __half* x, std::uint8_t* x8, float* scale, float* maximum, bool find, bool rotate,
                  Signs signs, int rows, int head_dim) {
  constexpr int kColumns = Dim / 32, kRows = kBlock / 16;
  __shared__ float largest_of[16];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.y, column = lane * kColumns;
  float v[kRows][kColumns];
  float largest = 0.f;
  const std::uint32_t flip = signs.word[column / 32] >> column % 32;
  const float norm = rsqrtf(float(head_dim));
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = blockIdx.x * kBlock + r * 16 + warp;
    __half in[kColumns] = {};
    if (row < rows && column < head_dim) {
      const __half* from = x + (std::int64_t{head} * rows + row) * head_dim + column;
      if constexpr (kColumns == 4)
        *reinterpret_cast<uint2*>(in) = *reinterpret_cast<const uint2*>(from);
      else
        *reinterpret_cast<uint4*>(in) = *reinterpret_cast<const uint4*>(from);
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) v[r][c] = __half2float(in[c]);
    if (rotate) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) v[r][c] *= flip >> c & 1 ? -norm : norm;
#pragma unroll
      for (int half = 1; half < kColumns; half *= 2)
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          if ((c & half) == 0) {
            const float a = v[r][c], b = v[r][c + half];
            v[r][c] = a + b;
            v[r][c + half] = a - b;
          }
      for (int other = 1; other * kColumns < head_dim; other *= 2)
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const float got = __shfl_xor_sync(~0u, v[r][c], other);
          v[r][c] = lane & other ? got - v[r][c] : v[r][c] + got;
        }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) largest = fmaxf(largest, fabsf(v[r][c]));
  }
  if (find || maximum == nullptr) {
    largest = warp_max(largest);
    if (lane == 0) largest_of[warp] = largest;
    __syncthreads();
    largest = warp_max(largest_of[lane % 16]);
    if (find) {
      if (threadIdx.x == 0) atomic_max(maximum + head, largest);
      return;
    }
  } else {
    largest = maximum[head];
  }
  const float s = scale_for(largest), inverse = 1.f / s;
  if (threadIdx.x == 0) scale[std::int64_t{head} * gridDim.x + blockIdx.x] = s;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = blockIdx.x * kBlock + r * 16 + warp;
    if (row >= rows) continue;
    std::uint32_t out[kColumns / 4];
#pragma unroll
    for (int c = 0; c < kColumns / 4; ++c)
      out[c] = pack_e4m3(v[r][4 * c] * inverse, v[r][4 * c + 1] * inverse, v[r][4 * c + 2] * inverse,
                         v[r][4 * c + 3] * inverse);
    std::uint8_t* to = x8 + (std::int64_t{head} * rows + row) * Dim + column;
    if constexpr (kColumns == 4)
      *reinterpret_cast<std::uint32_t*>(to) = out[0];
    else
      *reinterpret_cast<uint2*>(to) = make_uint2(out[0], out[1]);
  }
}

/// Raises maximum[head] to the largest magnitude of 128 rows of V.
__global__ void largest_v(const __half* v, float* maximum, int rows, int head_dim) {
  const int first = blockIdx.x * kBlock, count = min(kBlock, rows - first) * head_dim / 8;
  const uint4* from =
      reinterpret_cast<const uint4*>(v + (std::int64_t{blockIdx.y} * rows + first) * head_dim);
  float largest = 0.f;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const uint4 x = from[i];
    const __half* h = reinterpret_cast<const __half*>(&x);
#pragma unroll
    for (int c = 0; c < 8; ++c) largest = fmaxf(largest, fabsf(__half2float(h[c])));
  }
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0) atomic_max(maximum + blockIdx.y, largest);
}

/// 128 keys of one head: V^T in e4m3. Of every 16 keys, key k goes to position 4 (k % 8 / 2) + 2 (k / 8) + k
/// % 2.
__global__ void transpose_v(const __half* v, std::uint8_t* v8, const float* maximum, float* scale, int rows,
                            int head_dim, int dim, int keys) {
  constexpr int kPitch = kBlock + 4;
  extern __shared__ std::uint8_t tile[];  // (dim, kPitch)
  const int head = blockIdx.y, first = blockIdx.x * kBlock, pieces = dim / 8;
  const float s = scale_for(maximum[head]), inverse = 1.f / s;
  if (blockIdx.x == 0 && threadIdx.x == 0) scale[head] = s;
  for (int i = threadIdx.x; i < kBlock * pieces; i += blockDim.x) {
    const int key = i / pieces, column = i % pieces * 8;
    uint4 x = make_uint4(0, 0, 0, 0);
    if (first + key < rows && column < head_dim)
      x = *reinterpret_cast<const uint4*>(v + (std::int64_t{head} * rows + first + key) * head_dim + column);
    const __half* h = reinterpret_cast<const __half*>(&x);
    const int position = key / 16 * 16 + key % 8 / 2 * 4 + key / 8 % 2 * 2 + key % 2;
#pragma unroll
    for (int c = 0; c < 8; ++c)
      tile[(column + c) * kPitch + position] =
          __nv_cvt_float_to_fp8(__half2float(h[c]) * inverse, __NV_SATFINITE, __NV_E4M3);
  }
  __syncthreads();
  const int words = min(kBlock, keys - first) / 4;
  for (int i = threadIdx.x; i < dim * (kBlock / 4); i += blockDim.x) {
    const int column = i / (kBlock / 4), word = i % (kBlock / 4);
    if (word < words)
      *reinterpret_cast<std::uint32_t*>(v8 + (std::int64_t{head} * dim + column) * keys + first + 4 * word) =
          *reinterpret_cast<const std::uint32_t*>(tile + column * kPitch + 4 * word);
  }
}

Signs random_signs() {
  Signs s;
  for (std::uint32_t i = 0; i < 8; ++i) s.word[i] = philox4x32_10(0, i, 0, 0, 0).word[0];
  return s;
}

}  // namespace

Fp8Workspace fp8_workspace(const Problem& p) {
  Fp8Workspace w{};
  std::int64_t at = 0;
  const auto take = [&at](std::int64_t bytes) {
    const std::int64_t from = at;
    at += (bytes + 255) / 256 * 256;
    return from;
  };
  const std::int64_t heads = std::int64_t{p.batch} * p.heads_q, kv_heads = std::int64_t{p.batch} * p.heads_kv;
  w.dim = p.head_dim <= 128 ? 128 : 256;
  w.keys = (p.seqlen_k + 15) / 16 * 16;
  w.q_tiles = (p.seqlen_q + kBlock - 1) / kBlock;
  w.k_blocks = (p.seqlen_k + kBlock - 1) / kBlock;
  w.q = take(heads * p.seqlen_q * w.dim);
  w.k = take(kv_heads * p.seqlen_k * w.dim);
  w.v = take(kv_heads * w.keys * w.dim);
  w.q_scale = take(heads * w.q_tiles * 4);
  w.k_scale = take(kv_heads * w.k_blocks * 4);
  w.v_scale = take(kv_heads * 4);
  w.maxima = take((heads + 2 * kv_heads) * 4);
  w.counter = take(8);
  w.bytes = at;
  return w;
}

void fp8_quantise(const Problem& p, const Tiling& t, const Tensors& x, void* stream) {
  const Fp8Workspace w = fp8_workspace(p);
  char* base = static_cast<char*>(x.workspace);
  const auto bytes_at = [&](std::int64_t i) { return reinterpret_cast<std::uint8_t*>(base + i); };
  const auto floats_at = [&](std::int64_t i) { return reinterpret_cast<float*>(base + i); };
  const int heads = p.batch * p.heads_q, kv_heads = p.batch * p.heads_kv;
  float* maxima = floats_at(w.maxima);
  FLASHSIM_CUDA_CHECK(cudaMemsetAsync(maxima, 0, (heads + 2 * std::size_t(kv_heads)) * sizeof(float),
                                      static_cast<cudaStream_t>(stream)));
  const Signs signs = random_signs();
  const auto rows = [&](const void* from, std::int64_t to, std::int64_t scale, float* maximum, int n,
                        int blocks, int n_heads) {
    const auto kernel = w.dim == 128 ? quantise_rows<128> : quantise_rows<256>;
    for (int find = t.fp8_block_scales ? 0 : 1; find >= 0; --find)
      launch("fa3 quantise", kernel, dim3(blocks, n_heads), 512, 0, stream, static_cast<const __half*>(from),
             bytes_at(to), floats_at(scale), t.fp8_block_scales ? nullptr : maximum, find == 1,
             t.fp8_incoherent_processing, signs, n, p.head_dim);
  };
  rows(x.q, w.q, w.q_scale, maxima, p.seqlen_q, w.q_tiles, heads);
  rows(x.k, w.k, w.k_scale, maxima + heads, p.seqlen_k, w.k_blocks, kv_heads);
  const __half* v = static_cast<const __half*>(x.v);
  float* v_maximum = maxima + heads + kv_heads;
  launch("fa3 largest V", largest_v, dim3(w.k_blocks, kv_heads), 256, 0, stream, v, v_maximum, p.seqlen_k,
         p.head_dim);
  launch("fa3 transpose V", transpose_v, dim3(w.k_blocks, kv_heads), 256, w.dim * std::size_t{kBlock + 4},
         stream, v, bytes_at(w.v), v_maximum, floats_at(w.v_scale), p.seqlen_k, p.head_dim, w.dim, w.keys);
}

}  // namespace flashsim::gpu::fa3

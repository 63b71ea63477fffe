// The row kernels of standard attention: P = softmax(S), and dS = P o (dP - D) with D = rowsum(P o dP).
//
// Each row is read once, kept in shared memory, and written once. Rows up to `kWarpRow` bytes belong to one
// warp, longer ones to a thread block. Which part of a row exists is the caller's choice: the visible tiles
// of its row block (own products; e per element of a visible tile for each matrix read or written), or the
// whole row with hidden elements taken as -inf (cuBLAS products, which know no mask).
//
// Requested bytes per query head, over the elements of visible tiles: softmax e read + e written; dS 2 e read
// + e written. What pads a row to whole sectors (cpu_reference/score_layout.h) is read and written with it;
// it counts as hidden, so it becomes 0 in P and dS.
#include "gpu_kernels/common/block_gemm.cuh"
#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/dispatch.h"
#include "gpu_kernels/common/visible.cuh"
#include "gpu_kernels/standard/standard.h"

namespace flashsim::gpu::standard {

namespace {

constexpr int kRowThreads = 256;
constexpr int kWarpRowBytes = 8 * 1024;  ///< of shared memory a row, up to which a warp takes it alone

/// NaN wins, unlike in fmaxf: a row with a NaN score must become NaN.
__device__ __forceinline__ float max_or_nan(float a, float b) { return a != a || a > b ? a : b; }

template <bool kMaximum, int kWidth>
__device__ __forceinline__ float reduce(float x) {
  __shared__ float partial[kRowThreads / 32];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, x, lanes);
    x = kMaximum ? max_or_nan(x, other) : x + other;
  }
  if (kWidth == 32) return x;
  __syncthreads();  // the last reduction's values have been read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  x = partial[0];
#pragma unroll
  for (int w = 1; w < kRowThreads / 32; ++w) x = kMaximum ? max_or_nan(x, partial[w]) : x + partial[w];
  return x;
}

/// The part of a row that this group of kWidth threads works on.
template <int kWidth>
struct Row {
  std::int64_t begin;  ///< element of the matrix where the part begins
  int length;          ///< with what pads the row, so a multiple of 8
  int first, end;      ///< elements of the part that query q sees
  int lane;
  bool exists;

  __device__ Row(const Shape& p, int pitch, Extent extent) {
    const std::int64_t row =
        static_cast<std::int64_t>(blockIdx.x) * (kRowThreads / kWidth) + threadIdx.x / kWidth;
    exists = row < std::int64_t{p.batch} * p.heads_q * p.seqlen_q;
    lane = threadIdx.x % kWidth;
    const int q = static_cast<int>(row % p.seqlen_q);
    int from = 0;
    length = pitch;
    if (extent == Extent::visible_tiles) {
      const int q0 = q / kBlock * kBlock;
      const BlockRange visible = visible_cols(p, q0, min(q0 + kBlock, p.seqlen_q), kBlock);
      from = visible.first * kBlock;
      length = visible.empty() ? 0 : min(visible.end * kBlock, pitch) - from;
    }
    first = p.first_key(q) - from;
    end = p.end_key(q) - from;
    if (!exists) length = 0;
    begin = row * pitch + from;
  }
};

/// Starts reading a part of a row into `cache`, 16 bytes a time, past L1. Each thread copies what it alone
/// uses.
template <int kWidth, class T>
__device__ __forceinline__ void load_row(T* cache, const T* source, const Row<kWidth>& row) {
  for (int i = row.lane * 8; i < row.length; i += kWidth * 8)
    *reinterpret_cast<uint4*>(cache + i) = load_cg(reinterpret_cast<const uint4*>(source + row.begin + i));
}

/// Writes value(i), rounded, for every element i of this thread's share of a row's part.
template <int kWidth, class T, class Value>
__device__ __forceinline__ void store_row(T* out, const Row<kWidth>& row, Value value) {
  for (int i = row.lane * 8; i < row.length; i += kWidth * 8) {
    const auto pair = [&](int e) { return pack<T>(value(i + e), value(i + e + 1)); };
    // One store of 16 bytes; an assignment may become four of 4 bytes, which ask for more sectors.
    __stwb(reinterpret_cast<uint4*>(out + row.begin + i), make_uint4(pair(0), pair(2), pair(4), pair(6)));
  }
}

/// P = softmax(S), one row a group of kWidth threads.
template <class T, int kWidth>
__global__ void __launch_bounds__(kRowThreads, 3)
    softmax_kernel(Shape p, int pitch, Extent extent, const T* s, T* out) {
  extern __shared__ uint4 shared[];
  const Row<kWidth> row(p, pitch, extent);
  T* const cache = reinterpret_cast<T*>(shared) + threadIdx.x / kWidth * pitch;
  const auto shown = [&](int i) { return i >= row.first && i < row.end; };

  load_row(cache, s, row);
  // Each thread reads back only what it wrote, so no barrier is needed between the passes.
  float maximum = -INFINITY;
  for (int i = row.lane * 8; i < row.length; i += kWidth * 8)
    for (int e = 0; e < 8; ++e)
      if (shown(i + e)) maximum = max_or_nan(static_cast<float>(cache[i + e]), maximum);
  maximum = reduce<true, kWidth>(maximum);
  const auto exponential = [&](int i) {
    return shown(i) ? __expf(static_cast<float>(cache[i]) - maximum) : 0.f;
  };
  float sum = 0;
  for (int i = row.lane * 8; i < row.length; i += kWidth * 8)
    for (int e = 0; e < 8; ++e) sum += exponential(i + e);
  sum = reduce<false, kWidth>(sum);
  const float inverse = sum == 0 ? 0 : __fdividef(1, sum);  // a row that sees nothing: P = 0
  store_row(out, row, [&](int i) { return exponential(i) * inverse; });
}

/// dS = P o (dP - D).
template <class T, int kWidth>
__global__ void __launch_bounds__(kRowThreads, 3)
    softmax_gradient_kernel(Shape p, int pitch, Extent extent, const T* probabilities, const T* gradient,
                            T* out) {
  extern __shared__ uint4 shared[];
  const Row<kWidth> row(p, pitch, extent);
  T* const p_cache = reinterpret_cast<T*>(shared) + threadIdx.x / kWidth * 2 * pitch;
  T* const dp_cache = p_cache + pitch;
  load_row(p_cache, probabilities, row);
  load_row(dp_cache, gradient, row);
  const auto shown = [&](int i) { return i >= row.first && i < row.end; };
  float d = 0;
  for (int i = row.lane * 8; i < row.length; i += kWidth * 8)
    for (int e = 0; e < 8; ++e)
      if (shown(i + e)) d += static_cast<float>(p_cache[i + e]) * static_cast<float>(dp_cache[i + e]);
  d = reduce<false, kWidth>(d);
  store_row(out, row, [&](int i) {
    return shown(i) ? static_cast<float>(p_cache[i]) * (static_cast<float>(dp_cache[i]) - d) : 0.f;
  });
}

/// Launches the warp or the thread-block form of a row kernel that keeps `matrices` rows in shared memory.
template <class T, class... Parameters, class... Arguments>
void launch_rows(const char* name, void (*by_warp)(Parameters...), void (*by_block)(Parameters...),
                 const Shape& s, int pitch, int matrices, void* stream, const Arguments&... arguments) {
  const std::int64_t rows = std::int64_t{s.batch} * s.heads_q * s.seqlen_q;
  const std::size_t bytes = std::size_t(matrices) * pitch * sizeof(T);
  const bool warp = bytes <= kWarpRowBytes;
  const int rows_a_block = warp ? kRowThreads / 32 : 1;
  launch(name, warp ? by_warp : by_block, dim3(unsigned((rows + rows_a_block - 1) / rows_a_block)),
         kRowThreads, bytes * rows_a_block, stream, s, pitch, arguments...);
}

}  // namespace

void softmax_rows(const Problem& p, Extent extent, const void* scores, void* probabilities, void* stream) {
  with_16_bit_type(p.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch_rows<T>("P = softmax(S)", softmax_kernel<T, 32>, softmax_kernel<T, kRowThreads>, shape_of(p),
                   static_cast<int>(score_pitch(p)), 1, stream, extent, static_cast<const T*>(scores),
                   static_cast<T*>(probabilities));
  });
}

void softmax_gradient_rows(const Problem& p, Extent extent, const void* probabilities, const void* gradient,
                           void* out, void* stream) {
  with_16_bit_type(p.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch_rows<T>("dS = P o (dP - D)", softmax_gradient_kernel<T, 32>,
                   softmax_gradient_kernel<T, kRowThreads>, shape_of(p), static_cast<int>(score_pitch(p)), 2,
                   stream, extent, static_cast<const T*>(probabilities), static_cast<const T*>(gradient),
                   static_cast<T*>(out));
  });
}

}  // namespace flashsim::gpu::standard

// Softmax of rows in two ways (Milakov & Gimelshein 2018), as kernels of their own: how much does one pass
// over memory cost? S is batch * heads_q * seqlen_q rows of seqlen_k numbers; P = softmax(S) row by row. Rows
// are padded to whole 32-byte sectors (cpu_reference/score_layout.h).
//
//   safe    max, then sum of exp(x - max), then exp(x - max) / sum: reads S three times, writes P.
//           4 accesses an element.
//   online  max and sum together, the sum corrected whenever the maximum grows, then the result: reads S
//           twice, writes P. 3 accesses an element.
//
// Requested bytes: 4 respectively 3 times e n for a row of n, rounded up to sectors. Every pass really loads
// (past L1; nothing is kept on chip between the passes), which is the point of the comparison; whether a
// later pass reaches DRAM depends on whether the rows in flight fit L2.
//
// What still hurts: one thread block takes one row, so short rows are bound by latency and by the reductions
// over the block. A real kernel keeps the row in registers and touches memory twice.
#include "cpu_reference/score_layout.h"
#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/dispatch.h"
#include "gpu_kernels/common/ptx.cuh"
#include "gpu_kernels/common/registry.h"

namespace flashsim::gpu {
namespace {

constexpr int kThreads = 256;

/// A maximum and the sum of exp(x - maximum): what the online pass carries.
struct Partial {
  float maximum, sum;
};

/// exp(x - maximum); 0 where x is -inf, even if the maximum is, too.
__device__ __forceinline__ float exp_below(float x, float maximum) {
  return x == -INFINITY ? 0.f : __expf(x - maximum);
}
/// NaN wins, unlike in fmaxf.
__device__ __forceinline__ float max_or_nan(float a, float b) { return a != a || a > b ? a : b; }

__device__ __forceinline__ Partial combine(Partial a, Partial b) {
  const float maximum = max_or_nan(a.maximum, b.maximum);
  return {maximum, a.sum * exp_below(a.maximum, maximum) + b.sum * exp_below(b.maximum, maximum)};
}

/// Combines the partial results of the block's threads; all threads get the result.
__device__ __forceinline__ Partial combine_block(Partial x) {
  __shared__ Partial partial[kThreads / 32];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    x = combine(x,
                {__shfl_xor_sync(0xffffffffu, x.maximum, lanes), __shfl_xor_sync(0xffffffffu, x.sum, lanes)});
  __syncthreads();  // the last combination's values have been read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  x = partial[0];
#pragma unroll
  for (int w = 1; w < kThreads / 32; ++w) x = combine(x, partial[w]);
  return x;
}

/// Neighbouring elements of a row: 16 bytes.
template <class T>
struct Elements {
  static constexpr int size = 16 / int(sizeof(T));
  float x[size];

  __device__ __forceinline__ void load(const T* source) {
    const uint4 bits = load_cg(reinterpret_cast<const uint4*>(source));
    const uint32_t word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        x[i] = __uint_as_float(word[i]);
      } else {
        const float2 two = unpack<T>(word[i]);
        x[2 * i] = two.x, x[2 * i + 1] = two.y;
      }
    }
  }
  __device__ __forceinline__ void store(T* target) const {
    uint32_t word[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 4)
        word[i] = __float_as_uint(x[i]);
      else
        word[i] = pack<T>(x[2 * i], x[2 * i + 1]);
    }
    *reinterpret_cast<uint4*>(target) = make_uint4(word[0], word[1], word[2], word[3]);
  }
};

/// Calls use(first index, elements) for this thread's share of a row of n, which takes `pitch` elements in
/// memory; `use` may change the elements. What pads the row counts as -inf, so it changes nothing.
template <class T, bool kPadded, class Use>
__device__ __forceinline__ void for_each(const T* row, int n, int pitch, Use use) {
  constexpr int size = Elements<T>::size;
#pragma unroll 4
  for (int i = int(threadIdx.x) * size; i < pitch; i += kThreads * size) {
    Elements<T> elements;
    elements.load(row + i);
    if (kPadded && i + size > n) {
#pragma unroll
      for (int e = 0; e < size; ++e)
        if (i + e >= n) elements.x[e] = -INFINITY;
    }
    use(i, elements);
  }
}

/// One thread block a row.
template <class T, bool kOnline, bool kPadded>
__global__ void __launch_bounds__(kThreads) softmax_kernel(const T* s, T* p, int n, int pitch) {
  using Few = Elements<T>;
  const T* const source = s + std::int64_t{blockIdx.x} * pitch;
  T* const target = p + std::int64_t{blockIdx.x} * pitch;

  Partial row{-INFINITY, 0};
  if constexpr (kOnline) {
    for_each<T, kPadded>(source, n, pitch, [&](int, const Few& few) {
      float maximum = row.maximum;
#pragma unroll
      for (float x : few.x) maximum = max_or_nan(x, maximum);
      row.sum *= exp_below(row.maximum, maximum);  // what was summed under the old maximum
#pragma unroll
      for (float x : few.x) row.sum += exp_below(x, maximum);
      row.maximum = maximum;
    });
    row = combine_block(row);
  } else {
    for_each<T, kPadded>(source, n, pitch, [&](int, const Few& few) {
#pragma unroll
      for (float x : few.x) row.maximum = max_or_nan(x, row.maximum);
    });
    row.maximum = combine_block(row).maximum;
    for_each<T, kPadded>(source, n, pitch, [&](int, const Few& few) {
#pragma unroll
      for (float x : few.x) row.sum += exp_below(x, row.maximum);
    });
    row = combine_block(row);
  }
  const float inverse = row.sum == 0 ? 0 : __fdividef(1, row.sum);
  for_each<T, kPadded>(source, n, pitch, [&](int i, Few& few) {
#pragma unroll
    for (float& x : few.x) x = exp_below(x, row.maximum) * inverse;
    few.store(target + i);
  });
}

std::string fault(const Problem& p, const Tiling& t, Pass pass) {
  std::string found = fault_of(p);
  if (found.empty()) found = fault_of(t);
  if (found.empty()) found = fault_of_order(t);
  if (!found.empty()) return found;
  if (pass == Pass::backward) return "softmax is a forward kernel";
  if (p.dtype != Dtype::fp32 && p.dtype != Dtype::fp16)
    return std::string("S is ") + name_of(p.dtype) + "; softmax takes fp32 and fp16";
  if (p.masked()) return "softmax takes no mask: its rows are whole";
  if (p.dropout_p > 0) return "softmax has no dropout";
  if (p.seqlen_k > max_seqlen) return "seqlen_k is longer than " + std::to_string(max_seqlen);
  return fault_of_grid(std::int64_t{p.batch} * p.heads_q * p.seqlen_q);
}

/// A thread block takes a row, and a piece of it at a time: 16 bytes a thread.
Tiling tiling(const Problem& p, Pass) {
  Tiling t;
  t.block_q = 1;
  t.block_k = kThreads * 16 / bytes_of(p.dtype);
  t.warps = kThreads / 32;
  return t;
}

std::size_t workspace_bytes(const Problem&, const Tiling&, Pass) { return 0; }

template <class T, bool kOnline>
void launch_rows(const Problem& p, const Tensors& x, void* stream) {
  const dim3 rows(unsigned(std::int64_t{p.batch} * p.heads_q * p.seqlen_q));
  const int pitch = static_cast<int>(score_pitch(p));
  const auto kernel =
      p.seqlen_k == pitch ? softmax_kernel<T, kOnline, false> : softmax_kernel<T, kOnline, true>;
  launch(kOnline ? "softmax, online" : "softmax, safe", kernel, rows, kThreads, 0, stream,
         static_cast<const T*>(x.s), static_cast<T*>(x.p), p.seqlen_k, pitch);
}

template <bool kOnline>
void run(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream) {
  refuse_faults("softmax", fault(p, t, pass));
  need(x.s, "softmax", "s"), need(x.p, "softmax", "p");
  p.dtype == Dtype::fp32 ? launch_rows<float, kOnline>(p, x, stream)
                         : launch_rows<__half, kOnline>(p, x, stream);
}

}  // namespace

std::vector<Kernel> softmax_kernels() {
  return {{"softmax", "safe", "S to P in three passes: maximum, sum, result", fault, tiling, workspace_bytes,
           run<false>},
          {"softmax", "online", "S to P in two passes: maximum and sum together, result", fault, tiling,
           workspace_bytes, run<true>}};
}

}  // namespace flashsim::gpu

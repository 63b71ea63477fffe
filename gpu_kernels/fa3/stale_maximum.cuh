// Softmax that does not wait for the maximum; why that is exact, and why it pays: docs/kernels/fa3.md.
//
// A block's exponentials start with the reference of the block before, and their sum over this thread's
// columns, which is needed anyway, tells whether that was good enough: each entry of P is at most the sum.
// While it stays below 2^14, P fits fp16 (65504) and bf16, and O needs no factor. One warp vote a step
// replaces two shuffles, 64 comparisons and the rescaling. Where the vote fails, the block is repaired before
// anything has used it:
// - below 2^100, P is still exact in fp32: the reference rises by the exponent of the row's largest P, and
//   P, the sums and O are multiplied by that power of two, which rounds nothing;
// - above, P may be infinite: S is computed anew and goes through ordinary online softmax.
// Too large a reference would lose small P; but it never exceeds a score that was seen, as in online softmax.
// In e4m3 the bound is 448, and the vote is on P as it was packed. The largest P of a row, which may be all
// that matters of it, should be exact: a repair makes it 2^headroom, no matter what the power of two is.
//
// A row's first score needs no special case in the loop: until there is one, offset is NaN, so are P and its
// sum, and the vote fails. (Rows whose first block is all masked do not come here: masked blocks use online
// softmax, and only they can be first.)
#pragma once

#include "gpu_kernels/fa3/schedule.cuh"
#include "gpu_kernels/fa3/softmax.cuh"

namespace flashsim::gpu::fa3 {

constexpr float kLargestP = 16384.f;  ///< 2^14
constexpr float kExactP = 0x1p100f;   ///< sums below have not overflowed, and leave room for O

/// Where this thread's rows lie in the tensors: what a repair needs to compute scores anew.
struct Place {
  int64_t query_row, key_row;  ///< of the head's first query and key, over all heads
  int row;                     ///< this thread's first row, within the head
};

/// As mma_m16n8k16, with 32 e4m3 values where that has 16; fragments are the same bytes.
__device__ __forceinline__ void mma_m16n8k32_e4m3(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The scores of this warp's 16 rows with the keys of one block once more, from global memory, by mma.sync
/// (whose accumulators lie as wgmma's). What lies outside the tensors counts as zero.
template <class E, int N>
__device__ __forceinline__ void recompute_scores(float (&s)[N], const ForwardParams& p, const Place& at,
                                                 int first_key) {
  const int g = threadIdx.x / 4 % 8, t = threadIdx.x % 4, bytes = p.head_dim * int{sizeof(E)};
  const char* q = static_cast<const char*>(p.q) + (at.query_row + at.row) * bytes + 4 * t;
  const char* k = static_cast<const char*>(p.k) + (at.key_row + first_key + g) * bytes + 4 * t;
  const auto load = [](const char* x, bool inside) {  // volatile: not to be moved out of the rare path
    uint32_t r = 0;
    if (inside) asm volatile("ld.global.u32 %0, [%1];" : "=r"(r) : "l"(x));
    return r;
  };
  const bool row0 = at.row < p.seqlen_q, row8 = at.row + 8 < p.seqlen_q;
#pragma unroll
  for (int j = 0; j < N / 4; ++j) {
    float d[4] = {0.f, 0.f, 0.f, 0.f};
    const bool key = first_key + 8 * j + g < p.seqlen_k;
#pragma unroll 1
    for (int c = 0; c < bytes; c += 32) {
      const bool half = c + 16 < bytes;  // a row may end after 16 of these 32 bytes
      const char *q0 = q + c, *q8 = q0 + 8 * bytes, *kj = k + int64_t{8 * j} * bytes + c;
      const uint32_t a[4] = {load(q0, row0), load(q8, row8), load(q0 + 16, half && row0),
                             load(q8 + 16, half && row8)};
      const uint32_t b0 = load(kj, key), b1 = load(kj + 16, half && key);
      if constexpr (sizeof(E) == 2)
        mma_m16n8k16<E>(d, a, b0, b1);
      else
        mma_m16n8k32_e4m3(d, a, b0, b1);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) s[4 * j + i] = d[i];
  }
}

/// Rows that have seen no score: the next clean block will find out (see above).
__device__ __forceinline__ void expect_first_score(Softmax& softmax) {
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (softmax.reference[r] == -INFINITY) softmax.offset[r] = NAN;
}

/// Whether this warp's P, taken relative to an old reference, can be used as it is; warp-uniform. sum: of P
/// in fp32; packed: P as the tensor cores get it. In e4m3 what is too large has become 448 or NaN, the two
/// bytes whose top bit 2 more would set.
template <class E, int M>
__device__ __forceinline__ bool fits(const float (&sum)[2], const uint32_t (&packed)[M]) {
  if constexpr (sizeof(E) == 2) return __all_sync(~0u, sum[0] + sum[1] <= kLargestP);  // false for NaN
  uint32_t top = 0;
#pragma unroll
  for (int i = 0; i < M; ++i) top |= packed[i] + 0x02020202u;
  return __all_sync(~0u, (top & 0x80808080u) == 0);
}

/// Raises the reference of rows whose P is too large. s: P, sum: its sum over this thread's columns.
/// factor: what O must be multiplied by.
template <class E, int Headroom, int N>
__device__ __forceinline__ void repair(Softmax& softmax, float (&s)[N], float (&sum)[2], float (&factor)[2],
                                       float scale_log2, const ForwardParams& p, const Place& at,
                                       int first_key) {
  if (__all_sync(~0u, sum[0] + sum[1] <= kExactP)) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = float(1 << Headroom);
#pragma unroll
      for (int j = 0; j < N / 4; ++j) top = fmaxf(top, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
      top = quad_max(top);
      const float growth =
          sizeof(E) == 2 ? float((__float_as_int(top) >> 23) - 127) : __log2f(top) - Headroom;
      factor[r] = exp2_approx(-growth);
      softmax.offset[r] = softmax.reference[r] += growth;
      softmax.row_sum[r] *= factor[r];
      sum[r] *= factor[r];
    }
    scale_rows(s, factor);
  } else {
    recompute_scores<E>(s, p, at, first_key);
    softmax.update_max<Headroom>(s, factor, scale_log2);
    sum[0] = sum[1] = 0.f;
    softmax.exponentials<0, N / 4, false>(s, sum, scale_log2);
    expect_first_score(softmax);
  }
}

}  // namespace flashsim::gpu::fa3

// wgmma: the tensor-core instruction of a warpgroup (128 threads), D (64 x N, fp32 registers) += A (64 x K)
// B. A comes from shared memory or registers, B from shared memory; both are described by 64-bit descriptors.
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include <cuda_fp8.h>

#include "gpu_kernels/common/ptx.cuh"

namespace flashsim::gpu::fa3 {

/// Describes a tile in shared memory made of 8-row, 128-byte atoms with the 128-byte swizzle.
/// `column_stride`: bytes between neighbouring chunks of columns; only read where B's long side is contiguous
/// (V as loaded).
__device__ inline uint64_t descriptor(uint32_t address, uint32_t column_stride) {
  return (uint64_t{address & 0x3FFFF} >> 4) | (uint64_t{column_stride >> 4} << 16) |
         (uint64_t{1024 >> 4} << 32) | (uint64_t{1} << 62);
}
/// Orders register accesses before the wgmmas that follow.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most N committed groups are unfinished.
template <int N>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/// Keeps accesses of a wgmma's registers on their side of a fence or a wait, which the compiler would cross.
__device__ inline void pin(float& r) { asm volatile("" : "+f"(r)::"memory"); }
__device__ inline void pin(uint32_t& r) { asm volatile("" : "+r"(r)::"memory"); }
template <class T, int N>
__device__ inline void pin(T (&r)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) pin(r[i]);
}
/// Wgmma<N>::ss<E>(d, a, b, accumulate): A and B from shared memory, the reduced dimension contiguous.
/// Wgmma<N>::rs<E, BTransposed>(d, a, b, accumulate): A from registers; BTransposed: B's N side is
/// contiguous. One instruction each, reducing over 32 bytes of elements. `accumulate` 0 overwrites d.
template <int N>
struct Wgmma;

// The accumulators of each N as asm operands: their numbers (FLASHSIM_D) and their bindings (FLASHSIM_O).
#define FLASHSIM_TEN(t) \
  "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define FLASHSIM_D64 FLASHSIM_TEN() FLASHSIM_TEN(1) FLASHSIM_TEN(2) "%30, %31"
#define FLASHSIM_60 \
  FLASHSIM_TEN() FLASHSIM_TEN(1) FLASHSIM_TEN(2) FLASHSIM_TEN(3) FLASHSIM_TEN(4) FLASHSIM_TEN(5)
#define FLASHSIM_D128 FLASHSIM_60 "%60, %61, %62, %63"
#define FLASHSIM_D256                                                                          \
  FLASHSIM_60 FLASHSIM_TEN(6) FLASHSIM_TEN(7) FLASHSIM_TEN(8) FLASHSIM_TEN(9) FLASHSIM_TEN(10) \
      FLASHSIM_TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127"
#define FLASHSIM_O8(i)                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define FLASHSIM_O32(i) FLASHSIM_O8(i), FLASHSIM_O8(i + 8), FLASHSIM_O8(i + 16), FLASHSIM_O8(i + 24)
#define FLASHSIM_O64 FLASHSIM_O32(0)
#define FLASHSIM_O128 FLASHSIM_O64, FLASHSIM_O32(32)
#define FLASHSIM_O256 FLASHSIM_O128, FLASHSIM_O32(64), FLASHSIM_O32(96)
// The operands after the accumulators: B, accumulate, A. TAIL: whether A and B are stored with their long
// sides contiguous, which 8-bit types cannot be.
#define FLASHSIM_ASM(N, TYPES, B, P, A, TAIL, ...)                                                      \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N TYPES \
               " {" FLASHSIM_D##N "}, " A ", " B ", p, 1, 1" TAIL ";\n}\n"                              \
               : FLASHSIM_O##N                                                                          \
               : "l"(b), "r"(accumulate), __VA_ARGS__)
#define FLASHSIM_BY_TYPE(N, B, P, A, TAIL, ...)                       \
  if constexpr (std::is_same_v<E, __half>)                            \
    FLASHSIM_ASM(N, "k16.f32.f16.f16", B, P, A, TAIL, __VA_ARGS__);   \
  else if constexpr (std::is_same_v<E, __nv_bfloat16>)                \
    FLASHSIM_ASM(N, "k16.f32.bf16.bf16", B, P, A, TAIL, __VA_ARGS__); \
  else                                                                \
    FLASHSIM_ASM(N, "k32.f32.e4m3.e4m3", B, P, A, "", __VA_ARGS__)
#define FLASHSIM_WGMMA(N, I0, I1, I2, I3, I4, I5, I6)                                                    \
  template <>                                                                                            \
  struct Wgmma<N> {                                                                                      \
    template <class E>                                                                                   \
    static __device__ inline void ss(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {        \
      FLASHSIM_BY_TYPE(N, I0, I1, I2, ", 0, 0", "l"(a));                                                 \
    }                                                                                                    \
    template <class E, bool BTransposed>                                                                 \
    static __device__ inline void rs(float (&d)[N / 2], const uint32_t* a, uint64_t b, int accumulate) { \
      FLASHSIM_BY_TYPE(N, I0, I1, "{" I2 ", " I3 ", " I4 ", " I5 "}", ", " I6, "r"(a[0]), "r"(a[1]),     \
                       "r"(a[2]), "r"(a[3]), "n"(int{BTransposed}));                                     \
    }                                                                                                    \
  };
FLASHSIM_WGMMA(64, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
FLASHSIM_WGMMA(128, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
FLASHSIM_WGMMA(256, "%128", "%129", "%130", "%131", "%132", "%133", "%134")

}  // namespace flashsim::gpu::fa3

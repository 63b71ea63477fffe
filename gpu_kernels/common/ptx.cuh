// The PTX instructions that the kernels use, one thin wrapper each (PTX ISA 8.7, sections "cp.async",
// "ldmatrix", "stmatrix", "mma", "red", "ex2"). sm_80 is enough; where sm_90 has a better instruction the
// wrapper picks it.
//
// Fragments of m16n8k16, for lane = 4 g + t of a warp (g = 0..7, t = 0..3); every 32-bit register holds two
// 16-bit values, the left one in its low half:
//   A (16 x 16)  a0: row g,     cols 2t, 2t+1     a1: row g + 8, same cols
//                a2: row g,     cols 2t+8, 2t+9   a3: row g + 8, same cols
//   B (16 x 8)   b0: rows 2t, 2t+1, col g         b1: rows 2t+8, 2t+9, col g
//   C (16 x 8)   c0, c1: row g, cols 2t, 2t+1     c2, c3: row g + 8, same cols        (fp32)
// So the C fragments of two neighbouring 8-column blocks, converted in pairs, are the A fragment of 16
// columns.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace flashsim::gpu {

using std::int64_t;
using std::uint32_t;

/// Address of a shared-memory object as the instructions below take it.
__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// ------------------------------------------------------------------------------------------ asynchronous
// loads

/// Copies 16 bytes from global to shared memory past L1, or writes 16 zero bytes (and reads nothing) where
/// `valid` is false. Both addresses 16-byte aligned.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, bool valid = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
/// The same where all 16 bytes are there.
__device__ __forceinline__ void cp_async_16_whole(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(shared), "l"(global) : "memory");
}
/// The same for the first `bytes` (0 to 16) of the 16, the end of a row; the others become zero and are not
/// read.
__device__ __forceinline__ void cp_async_16_part(uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}
/// The same for 4 bytes, which only the instruction that goes through L1 takes.
__device__ __forceinline__ void cp_async_4(uint32_t shared, const void* global, bool valid = true) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared), "l"(global), "r"(valid ? 4 : 0)
               : "memory");
}
/// Closes the group of this thread's copies since the last commit.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Waits until at most PENDING of this thread's latest groups are still on their way.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

// --------------------------------------------------------------------------------- shared memory <->
// fragments

/// Four 8 x 8 matrices of 16-bit values; lanes 8 i ... 8 i + 7 give the addresses of matrix i's rows (16
/// bytes each). Lane 4 g + t receives row g, columns 2t, 2t+1 of matrix i in r[i].
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}
/// The same with every matrix transposed: lane 4 g + t receives rows 2t, 2t+1 of column g.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}

/// The inverse of ldmatrix_x4 (sm_90; on sm_80 each lane writes its own pairs). The lanes' addresses are
/// those ldmatrix_x4 would take.
__device__ __forceinline__ void stmatrix_x4(uint32_t shared, uint32_t r0, uint32_t r1, uint32_t r2,
                                            uint32_t r3) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(shared), "r"(r0),
               "r"(r1), "r"(r2), "r"(r3)
               : "memory");
#else
  const int lane = threadIdx.x & 31;
  const uint32_t r[4] = {r0, r1, r2, r3};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t row = __shfl_sync(0xffffffffu, shared, 8 * i + lane / 4);
    asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(row + 4 * (lane % 4)), "r"(r[i]) : "memory");
  }
#endif
}

// ----------------------------------------------------------------------------------------------- tensor
// cores

/// c += a b for one 16 x 8 tile, k = 16, products of T and sums in fp32. T is __half or __nv_bfloat16.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void mma_m16n8k16<__half>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                     uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4],
                                                            uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// -------------------------------------------------------------------------------------------------
// conversions

/// Two fp32 values rounded to nearest even and packed, `low` in the low half.
template <class T>
__device__ __forceinline__ uint32_t pack(float low, float high);
template <>
__device__ __forceinline__ uint32_t pack<__half>(float low, float high) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
template <>
__device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float low, float high) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

/// Four fp32 values in e4m3 (sm_89), the first in the lowest byte; beyond 448 they become 448.
__device__ __forceinline__ uint32_t pack_e4m3(float a, float b, float c, float d) {
  uint32_t r;
  asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\nmov.b32 %0, {low, high};\n}\n"
      : "=r"(r)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return r;
}

/// The two values packed in r, in fp32.
template <class T>
__device__ __forceinline__ float2 unpack(uint32_t r);
template <>
__device__ __forceinline__ float2 unpack<__half>(uint32_t r) {
  return __half22float2(*reinterpret_cast<const __half2*>(&r));
}
template <>
__device__ __forceinline__ float2 unpack<__nv_bfloat16>(uint32_t r) {
  return make_float2(__uint_as_float(r << 16), __uint_as_float(r & 0xffff0000u));
}

/// 2^x; 2^-inf = 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

// ------------------------------------------------------------------------------------------------- global
// memory

/// Loads past L1, so that every one of them is a request to L2.
__device__ __forceinline__ uint4 load_cg(const uint4* p) { return __ldcg(p); }
__device__ __forceinline__ float load_cg(const float* p) { return __ldcg(p); }

/// Reads a counter that other thread blocks raise; what they wrote before is visible afterwards.
__device__ __forceinline__ unsigned load_acquire(const unsigned* p) {
  unsigned x;
  asm volatile("ld.global.acquire.gpu.u32 %0, [%1];\n" : "=r"(x) : "l"(p) : "memory");
  return x;
}

/// Adds four floats to four in global memory, each atomically; 16-byte aligned. No result comes back.
__device__ __forceinline__ void reduce_add_4(float* p, float x, float y, float z, float w) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"l"(p), "f"(x), "f"(y), "f"(z), "f"(w)
               : "memory");
#else
  atomicAdd(p, x);
  atomicAdd(p + 1, y);
  atomicAdd(p + 2, z);
  atomicAdd(p + 3, w);
#endif
}

}  // namespace flashsim::gpu

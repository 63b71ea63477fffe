// What moves and orders data on Hopper: the tensor memory accelerator (TMA), which copies whole tiles between
// global and shared memory on one thread's command, and the barriers its users wait on.
// PTX ISA, "cp.async.bulk.tensor", "mbarrier", "setmaxnreg".
#pragma once

#include <cuda.h>

#include "gpu_kernels/common/ptx.cuh"

namespace flashsim::gpu::fa3 {

/// Tensor maps of Q and O (batch * heads_q heads), K and V (batch * heads_kv heads; in e4m3 V^T).
struct Maps {
  CUtensorMap q, k, v, o;
};
/// Registers per thread of this warpgroup from here on; what one role gives up the other can take.
template <int N, bool Take>
__device__ inline void set_registers() {
  if constexpr (Take) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
  if constexpr (!Take) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
/// Loads one box of a 3-D tensor map; completes on the mbarrier `bar`. What lies outside the tensor arrives
/// as zeros (and counts as bytes).
__device__ inline void tma_load(uint32_t dst, const CUtensorMap* map, uint32_t bar, int column, int row,
                                int head) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(dst),
      "l"(map), "r"(bar), "r"(column), "r"(row), "r"(head)
      : "memory");
}
/// Stores one box, as part of the group that tma_store_commit closes. What lies outside is left out.
__device__ inline void tma_store(const CUtensorMap* map, uint32_t src, int column, int row, int head) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(src), "r"(column), "r"(row), "r"(head)
      : "memory");
}
__device__ inline void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until this thread's stores have read their shared memory; tma_store_wait: until they have written.
__device__ inline void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ inline void tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// This thread's stores to shared memory come before TMA's reads that follow, its loads before TMA's writes.
__device__ inline void tma_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// A ring of buffers between who fills them (and waits for `empty`) and who uses them (and waits for `full`).
/// Use number i lies in stage i % Stages, which has two mbarriers: they complete a phase when all arrivals
/// and announced bytes have come; waiters name the phase's parity, and a fresh barrier lets parity 1 pass.
template <int Stages>
struct Ring {
  uint32_t full, empty;  ///< shared addresses of Stages mbarriers each

  __device__ inline void init(int users) const {
    for (int s = 0; s < Stages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * s));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + 8 * s), "r"(users));
    }
  }
  __device__ inline static int stage(unsigned i) { return i % Stages; }
  __device__ inline uint32_t full_barrier(unsigned i) const { return full + 8 * (i % Stages); }
  __device__ inline void wait_full(unsigned i) const { wait(full_barrier(i), i / Stages & 1); }
  __device__ inline void wait_empty(unsigned i) const {
    wait(empty + 8 * (i % Stages), (i / Stages & 1) ^ 1);
  }
  /// Full as soon as TMA loads have brought `bytes`; fill: at once.
  __device__ inline void announce(unsigned i, uint32_t bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full_barrier(i)), "r"(bytes)
                 : "memory");
  }
  __device__ inline void fill(unsigned i) const { arrive(full_barrier(i)); }
  __device__ inline void release(unsigned i) const { arrive(empty + 8 * (i % Stages)); }

 private:
  __device__ inline static void arrive(uint32_t bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
  }
  __device__ inline static void wait(uint32_t bar, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra DONE;\nbra WAIT;\nDONE:\n}\n" ::"r"(bar),
        "r"(parity)
        : "memory");
  }
};

}  // namespace flashsim::gpu::fa3

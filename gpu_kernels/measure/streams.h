// Streaming kernels with known traffic: to empty L2, to re-read buffers, to check the counters. All loads
// bypass L1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_reference/problem.h"

namespace flashsim::gpu {

/// Device pointers, 16-byte aligned; `bytes` a multiple of 16. Launched on the default stream, not waited
/// for. Throw CudaError.
///
/// `sink` is one 8-byte word that keeps the loads from being removed.
void read_stream(const void* from, std::size_t bytes, void* sink);
void copy_stream(const void* from, void* to, std::size_t bytes);
/// Adds 1 to every fp32 of `to`, by reductions whose old values are not returned.
void reduce_stream(void* to, std::size_t bytes);
/// Reads the buffer `repeats` times, beginning 40,968 x 16 bytes (whole lines) further on each time.
void reread_stream(const void* from, std::size_t bytes, int repeats, void* sink);
/// Copies through shared memory by bulk copies (TMA), 16 KiB each; `bytes` a multiple of that. sm_90 only:
/// throws Unsupported elsewhere.
void bulk_copy_stream(const void* from, void* to, std::size_t bytes);
/// Adds a tile of ones to fp32 memory by bulk reductions (TMA), 16 KiB each.
void bulk_reduce_stream(void* to, std::size_t bytes);

/// Fills `to` with `count` fp16 or bf16 numbers near N(0, 1), a pure function of seed and position.
void fill_normal(void* to, std::size_t count, Dtype dtype, std::uint64_t seed);

}  // namespace flashsim::gpu

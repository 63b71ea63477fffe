// On what a problem runs: GPUs as rows of data, each with its source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpu_reference/problem.h"

namespace flashsim {

/// One GPU. Rates are peaks that the vendor states (dense, without sparsity), in FLOP/s and bytes/s; sizes
/// are in bytes. 0 where a GPU has no such unit.
struct Gpu {
  std::string_view name;   ///< what --gpu takes, e.g. "h200"
  std::string_view title;  ///< e.g. "NVIDIA H200 SXM"
  double hbm_bytes_per_s = 0;
  std::int64_t hbm_bytes = 0;
  std::int64_t l2_bytes = 0;
  int l2_partitions = 1;  ///< each serves the SMs of its side; two keep copies of each other's lines
  double l2_bytes_per_s = 0;
  int sm_count = 0;
  double clock_hz = 0;                          ///< the clock at which the tensor rates hold
  std::int64_t l1_and_shared_bytes_per_sm = 0;  ///< the one memory that L1 and shared memory divide
  std::int64_t shared_bytes_per_sm = 0;         ///< at most this much of it is shared memory
  std::int64_t shared_bytes_per_block = 0;      ///< at most this much in one thread block
  std::int64_t shared_bytes_reserved_per_block = 1024;
  int registers_per_sm = 65536;  ///< of 32 bits
  int threads_per_sm = 2048;
  int blocks_per_sm = 32;
  double fp16_flops = 0;  ///< fp16 and bf16 with fp32 sums, on the tensor cores
  double fp8_flops = 0;
  double fp32_flops = 0;          ///< fp32 on the CUDA cores
  double fp64_flops = 0;          ///< on the tensor cores where they have it
  int exp_per_clock_per_sm = 16;  ///< exp2 results a clock
  bool spec_only = false;         ///< nothing here was ever checked against a card
  std::string_view source;

  /// FLOP/s of matrix products with operands of that dtype; 0 where the GPU has none.
  double matmul_flops(Dtype operands) const;
  /// exp results a second, over the whole GPU.
  double exp_per_s() const { return exp_per_clock_per_sm * clock_hz * sm_count; }
  /// Bytes a second that shared memory delivers over the whole GPU: 128 a clock and SM.
  double shared_bytes_per_s() const { return 128 * clock_hz * sm_count; }
  /// FLOPs a byte from HBM must feed before the tensor cores are the limit (the roofline's ridge).
  double flops_per_hbm_byte(Dtype operands) const { return matmul_flops(operands) / hbm_bytes_per_s; }
  /// How many thread blocks of that much shared memory, that many threads and registers a thread an SM holds
  /// at once; 0 where not even one fits.
  int blocks_that_fit(std::int64_t shared_bytes, int threads, int registers_per_thread) const;
};

/// a100-40, a100-80, h100, h200, rtx4090, b200.
const std::vector<Gpu>& gpus();

/// The GPU of that name, in upper or lower case; null where there is none.
const Gpu* find_gpu(std::string_view name);

/// The GPU that a driver calls `device_name`, e.g. "NVIDIA A100-SXM4-80GB"; null where none of ours is meant.
const Gpu* gpu_of_device(std::string_view device_name);

/// "a100-40, a100-80, ...": for messages that say what was expected.
std::string gpu_names();

}  // namespace flashsim

// What the card can do at best, measured: the figures that kernels are held against.
#pragma once

namespace flashsim::gpu {

struct Ceilings {
  double copy_bytes_per_second = 0;  ///< device to device, bytes read plus bytes written
  double read_bytes_per_second = 0;  ///< a kernel that only reads
  double fp16_flops_per_second = 0;  ///< cuBLAS, 8192 x 8192 x 8192, sums in fp32, random normal inputs
  double bf16_flops_per_second = 0;
  double sm_clock_mhz_under_load = 0;          ///< right after the matrix products
  int sm_clock_mhz = 0, memory_clock_mhz = 0;  ///< the highest that the card is made for
};

/// Medians of several runs, in the blocks that kernels are timed in; takes about two seconds and 4 GiB of
/// device memory. Throws CudaError.
Ceilings measure_ceilings();

}  // namespace flashsim::gpu

// From values known at run time to template arguments, and the checks a launcher makes first. Host code of
// .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <limits>
#include <string>
#include <type_traits>

#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<__half>) or f(TypeTag<__nv_bfloat16>).
template <class F>
void with_16_bit_type(Dtype dtype, F f) {
  if (dtype == Dtype::fp16)
    f(TypeTag<__half>{});
  else
    f(TypeTag<__nv_bfloat16>{});
}

/// Calls f(TypeTag<T>, integral_constant<int, padded head_dim>).
template <class F>
void with_type_and_dim(const Problem& p, F f) {
  with_16_bit_type(p.dtype, [&](auto type) {
    switch (padded_head_dim(p.head_dim)) {
      case 64: f(type, std::integral_constant<int, 64>{}); break;
      case 128: f(type, std::integral_constant<int, 128>{}); break;
      default: f(type, std::integral_constant<int, 256>{}); break;
    }
  });
}

/// Throws Unsupported with the kernel's own reason where it does not compute `p`.
inline void refuse_faults(const char* kernel, const std::string& fault) {
  if (!fault.empty()) throw Unsupported(std::string(kernel) + ": " + fault);
}

/// Throws Unsupported where a tensor that the kernel needs was not given.
inline void need(const void* tensor, const char* kernel, const char* name) {
  if (tensor == nullptr)
    throw Unsupported(std::string(kernel) + ": Tensors::" + name + " is null, but needed here");
}

/// What is wrong with a grid of that many thread blocks; empty where nothing is.
inline std::string fault_of_grid(std::int64_t blocks) {
  if (blocks <= std::numeric_limits<int>::max()) return {};
  return "the problem needs " + std::to_string(blocks) + " thread blocks; at most 2^31 - 1 can be launched";
}

/// Why `t` is not the tiling this kernel was compiled for; empty where it is.
inline std::string fault_of_blocks(const Tiling& t, int block_q, int block_k) {
  if (t.block_q == block_q && t.block_k == block_k) return {};
  return "tiles of " + std::to_string(t.block_q) + " x " + std::to_string(t.block_k) +
         " were asked for; here " + std::to_string(block_q) + " x " + std::to_string(block_k) +
         " is compiled";
}

/// Of a kernel whose thread blocks start in one order, head by head from the first rows on: why it cannot be
/// another; empty where none was asked for.
inline std::string fault_of_order(const Tiling& t) {
  if (t.order == BlockOrder::first_to_last && t.heads_together == 1 && t.late_blocks == 0) return {};
  return "this kernel's thread blocks start head by head, first to last; other orders are an option of fa2 "
         "and fa3 only";
}

}  // namespace flashsim::gpu

// Which tiles the mask leaves, as ranges of block indices: the same ranges as in the simulator's schedules.
// Queries see keys first_key(q) ... end_key(q) - 1, neither of which ever decreases, so the visible blocks
// are one range each way.
#pragma once

#include "gpu_kernels/common/shape.cuh"

namespace flashsim::gpu {

struct BlockRange {
  int first = 0, end = 0;  ///< empty where first >= end
  __host__ __device__ bool empty() const { return first >= end; }
};

__host__ __device__ constexpr int ceil_div(int n, int size) { return (n + size - 1) / size; }
/// Column blocks that some query among rows `begin` ... `end` - 1 sees.
__host__ __device__ inline BlockRange visible_cols(const Shape& s, int begin, int end, int block_k) {
  const int low = s.first_key(begin), high = s.end_key(end - 1);
  return low < high ? BlockRange{low / block_k, (high - 1) / block_k + 1} : BlockRange{};
}

/// Row blocks with a query that sees some key among `begin` ... `end` - 1.
__host__ __device__ inline BlockRange visible_rows(const Shape& s, int begin, int end, int block_q) {
  const int low = s.first_query(begin), high = s.end_query(end - 1);
  return low < high ? BlockRange{low / block_q, (high - 1) / block_q + 1} : BlockRange{};
}

/// Whether every query of rows q0 ... q1 - 1 sees every key of k0 ... k1 - 1.
__host__ __device__ inline bool sees_all(const Shape& s, int q0, int q1, int k0, int k1) {
  return k0 >= s.first_key(q1 - 1) && k1 <= s.end_key(q0);
}

__host__ __device__ inline bool sees(const Shape& s, int q, int k) {
  return k >= s.first_key(q) && k < s.end_key(q);
}

}  // namespace flashsim::gpu

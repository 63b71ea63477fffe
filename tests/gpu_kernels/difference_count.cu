#include "tests/gpu_kernels/difference_count.h"

#include "gpu_kernels/common/check.h"

namespace flashsim::gpu {
namespace {

__global__ void count_differences(const std::uint32_t* a, const std::uint32_t* b, std::size_t words,
                                  unsigned long long* count) {
  unsigned different = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += std::size_t{gridDim.x} * blockDim.x)
    different += a[i] != b[i];
  if (different > 0) atomicAdd(count, different);
}

}  // namespace

DifferenceCount::DifferenceCount() : count_(sizeof(unsigned long long)) { count_.fill_bytes(0); }

void DifferenceCount::add(const DeviceBuffer& a, const DeviceBuffer& b) {
  launch("count differences", count_differences, dim3(256), 256, 0, nullptr,
         static_cast<const std::uint32_t*>(a.data()), static_cast<const std::uint32_t*>(b.data()),
         a.bytes() / sizeof(std::uint32_t), static_cast<unsigned long long*>(count_.data()));
}

std::uint64_t DifferenceCount::words() const {
  unsigned long long words = 0;
  count_.copy_to_host(&words, sizeof words);
  return words;
}

}  // namespace flashsim::gpu

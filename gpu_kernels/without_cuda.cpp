// The registry of a build without CUDA: no kernels, and every device call says why.
#include "gpu_kernels/common/ceilings.h"
#include "gpu_kernels/common/copy.h"
#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {
namespace {
[[noreturn]] void refuse() { throw CudaError(why_no_gpu()); }
}  // namespace

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> none;
  return none;
}
const Kernel* find_kernel(const std::string&, const std::string&) { return nullptr; }

std::string why_no_gpu() {
  return "this flashsim was built without CUDA; install the CUDA Toolkit 12.8 or newer and build again";
}
std::string why_no_cublas() { return why_no_gpu(); }
DeviceInfo device_info() { refuse(); }

DeviceBuffer::DeviceBuffer(std::size_t) { refuse(); }
DeviceBuffer::DeviceBuffer(DeviceBuffer&&) noexcept = default;
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&&) noexcept = default;
DeviceBuffer::~DeviceBuffer() = default;
void DeviceBuffer::copy_from_host(const void*, std::size_t) { refuse(); }
void DeviceBuffer::copy_to_host(void*, std::size_t) const { refuse(); }
void DeviceBuffer::fill_bytes(int) { refuse(); }

void synchronize() { refuse(); }

void copy_to_device(void*, const void*, std::size_t) { refuse(); }
void copy_from_device(void*, const void*, std::size_t) { refuse(); }

Ceilings measure_ceilings() { refuse(); }

std::vector<double> time_launches(const Kernel&, const Problem&, const Tiling&, Pass, const Tensors&, int,
                                  int, bool) {
  refuse();
}

}  // namespace flashsim::gpu

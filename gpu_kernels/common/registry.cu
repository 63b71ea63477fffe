// The registry: every compiled kernel, in the order in which the algorithms were invented.
#include "gpu_kernels/common/registry.h"

#include <initializer_list>

namespace flashsim::gpu {
namespace {

std::vector<Kernel> concatenate(std::initializer_list<std::vector<Kernel>> folders) {
  std::vector<Kernel> all;
  for (const std::vector<Kernel>& folder : folders) all.insert(all.end(), folder.begin(), folder.end());
  return all;
}

}  // namespace

const std::vector<Kernel>& kernels() {
  // One line for each folder that is built.
  static const std::vector<Kernel> all = concatenate({
      standard_kernels(),
      softmax_kernels(),
      fa1_kernels(),
      fa2_kernels(),
      fa3_kernels(),
      decoding_kernels(),
  });
  return all;
}

const Kernel* find_kernel(const std::string& name, const std::string& variant) {
  for (const Kernel& kernel : kernels())
    if (kernel.name == name && kernel.variant == variant) return &kernel;
  return nullptr;
}

}  // namespace flashsim::gpu

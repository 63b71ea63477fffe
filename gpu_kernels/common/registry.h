// What each algorithm's folder contributes to the registry: a function that lists its kernels. A folder that
// is built has a line in registry.cu; nothing registers itself behind the scenes.
#pragma once

#include <vector>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

std::vector<Kernel> standard_kernels();
std::vector<Kernel> softmax_kernels();
std::vector<Kernel> fa1_kernels();
std::vector<Kernel> fa2_kernels();
std::vector<Kernel> fa3_kernels();
std::vector<Kernel> decoding_kernels();

}  // namespace flashsim::gpu

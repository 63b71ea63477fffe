// Which kernels a registry entry really launches; plain C++.
#pragma once

#include <string>
#include <vector>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

/// The mangled names of the functions that kernel.launch puts on a stream, in order, found by capturing them
/// into a graph instead of running them. A kernel of a library (cuBLAS) may show as "(library)". `x` must
/// hold what launch asks for; nothing is read or written. Throws CudaError and what launch throws.
std::vector<std::string> launched_functions(const Kernel& kernel, const Problem& p, const Tiling& t,
                                            Pass pass, const Tensors& x);

}  // namespace flashsim::gpu

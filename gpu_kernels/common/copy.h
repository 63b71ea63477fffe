// Copies to and from anywhere in device memory; plain C++.
#pragma once

#include <cstddef>

namespace flashsim::gpu {

/// Waits for what the device is doing, copies `bytes` and returns when they are there. Throw CudaError.
void copy_to_device(void* device, const void* host, std::size_t bytes);
void copy_from_device(void* host, const void* device, std::size_t bytes);

}  // namespace flashsim::gpu

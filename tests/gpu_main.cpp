// The main function of the tests that need a GPU: skips (ctest's code 77) where none can be used.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "gpu_kernels/kernels.h"

int main(int argc, char** argv) {
  const std::string reason = flashsim::gpu::why_no_gpu();
  if (!reason.empty()) {
    const bool required = std::getenv("FLASHSIM_REQUIRE_GPU") != nullptr;
    std::cout << (required ? "FAILED, a GPU is required: " : "SKIPPED, no GPU: ") << reason << '\n';
    return required ? 1 : 77;
  }
  return doctest::Context(argc, argv).run();
}

#include "gpu_kernels/c_api.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "gpu_kernels/kernels.h"

namespace {

flashsim_problem problem() {
  flashsim_problem p{};
  p.batch = 1, p.heads_q = p.heads_kv = 2, p.seqlen_q = p.seqlen_k = 128, p.head_dim = 64;
  p.dtype = static_cast<int>(flashsim::Dtype::fp16);
  p.window_left = p.window_right = -1;
  return p;
}

}  // namespace

TEST_CASE("the registry in C is the registry") {
  const auto& kernels = flashsim::gpu::kernels();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    CHECK(kernels[i].name == flashsim_kernel_name(static_cast<std::int32_t>(i)));
    CHECK(kernels[i].variant == flashsim_kernel_variant(static_cast<std::int32_t>(i)));
  }
  CHECK(flashsim_kernel_name(static_cast<std::int32_t>(kernels.size())) == nullptr);
  CHECK(flashsim_kernel_name(-1) == nullptr);
}

TEST_CASE("an unknown kernel is an error that says so") {
  const flashsim_problem p = problem();
  CHECK(flashsim_supports("fa9", "", &p, 0, nullptr) == FLASHSIM_NO_SUCH_KERNEL);
  CHECK(std::string(flashsim_error()).find("fa9") != std::string::npos);
}

TEST_CASE("faults come back as codes and reasons; workspace sizes as the kernel gives them") {
  if (flashsim::gpu::kernels().empty()) return;  // a build without CUDA has nothing to ask
  flashsim_problem p = problem();
  std::size_t bytes = 12345;
  CHECK(flashsim_supports("fa1", "", &p, 1, &bytes) == FLASHSIM_OK);
  CHECK(bytes == std::size_t{2} * 128 * 64 * 4);
  p.narrow_temporaries = 1;
  CHECK(flashsim_supports("fa1", "", &p, 1, &bytes) == FLASHSIM_OK);
  CHECK(bytes == 0);
  p.head_dim = 12;
  CHECK(flashsim_supports("fa1", "", &p, 0, nullptr) == FLASHSIM_UNSUPPORTED);
  CHECK(std::string(flashsim_error()).find("head_dim") != std::string::npos);
  p = problem();
  p.dtype = 17;
  CHECK(flashsim_supports("fa1", "", &p, 0, nullptr) == FLASHSIM_UNSUPPORTED);
  p = problem();
  const flashsim_tensors none{};
  CHECK(flashsim_launch("fa1", "", &p, 0, &none, nullptr) == FLASHSIM_UNSUPPORTED);
  CHECK(std::string(flashsim_error()).find("null") != std::string::npos);
}

// Uses each installed library through its installed headers; exits with 1 where one does not do what it
// should.
#include <cmath>
#include <iostream>

#include "cpu_reference/problem.h"
#include "gpu_kernels/kernels.h"

int main() {
  flashsim::Problem p;
  p.seqlen_q = p.seqlen_k = 128;
  p.head_dim = 64;
  const bool reference_works = fault_of(p).empty() && std::abs(scale_of(p) - 0.125) < 1e-12;

  bool gpu_works = true;  // what it is asked for here needs neither CUDA nor a GPU
  for (const flashsim::gpu::Kernel& k : flashsim::gpu::kernels())
    gpu_works = gpu_works && flashsim::gpu::find_kernel(k.name, k.variant) == &k;

  std::cout << "reference: " << describe(p) << (reference_works ? "" : " FAILED") << '\n'
            << "gpu: " << flashsim::gpu::kernels().size() << " kernels" << (gpu_works ? "" : " FAILED")
            << '\n';
  return reference_works && gpu_works ? 0 : 1;
}

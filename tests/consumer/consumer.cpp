// Uses each installed library through its installed headers; exits with 1 where one does not do what it
// should.
#include <cmath>
#include <cstdint>
#include <iostream>

#include "cpu_reference/problem.h"
#include "gpu_kernels/kernels.h"
#include "simulator/schedules/schedules.h"

namespace {

// An executor of one's own: how many elements the thread blocks load.
class LoadedElements final : public flashsim::Executor {
 public:
  void execute(const flashsim::Operation& op) override {
    if (op.kind == flashsim::Op::load) count_ += op.out->size();
  }
  std::int64_t count() const { return count_; }

 private:
  std::int64_t count_ = 0;
};

bool say(const char* what, bool works) {
  std::cout << what << (works ? ": works\n" : ": FAILED\n");
  return works;
}

}  // namespace

int main() {
  flashsim::Problem p;
  p.seqlen_q = p.seqlen_k = 128;
  p.head_dim = 64;
  const bool reference = fault_of(p).empty() && std::abs(scale_of(p) - 0.125) < 1e-12;

  // FlashAttention-2 reads Q once, and K and V once for each of its two row blocks.
  flashsim::Tiling t;
  t.block_q = t.block_k = 64;
  LoadedElements loaded;
  flashsim::SerialDevice device(p, loaded);
  flashsim::fa2_forward(device, p, t);
  const bool simulator = loaded.count() == (1 + 2 * 2) * 128 * 64;

  bool gpu = true;  // what it is asked for here needs neither CUDA nor a GPU
  for (const flashsim::gpu::Kernel& k : flashsim::gpu::kernels())
    gpu = gpu && flashsim::gpu::find_kernel(k.name, k.variant) == &k;

  const bool all[] = {say("reference", reference), say("simulator", simulator), say("gpu", gpu)};
  return all[0] && all[1] && all[2] ? 0 : 1;
}

// Which kernel runs under a name: the functions that a launch puts on a stream, by capturing it.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "gpu_kernels/check/kernel_check.h"
#include "gpu_kernels/common/launched.h"

using namespace flashsim;
using namespace flashsim::gpu;

namespace {

bool is_ours(const std::string& function) { return function.find("flashsim") != std::string::npos; }

/// Enough memory for any tensor of the problem; its contents do not matter.
struct Room {
  DeviceBuffer memory{std::size_t{64} << 20};
  Tensors tensors() const {
    void* const at = memory.data();
    float* const numbers = static_cast<float*>(at);
    Tensors x;
    x.q = x.k = x.v = x.d_o = at;
    x.o = x.s = x.p = x.dq = x.dk = x.dv = x.workspace = at;
    x.lse = x.l = x.m = numbers;
    return x;
  }
};

}  // namespace

TEST_CASE("every name launches functions of its own algorithm, and no two names the same ones") {
  const Room room;
  Problem p;
  p.heads_q = p.heads_kv = 2, p.seqlen_q = p.seqlen_k = 256, p.head_dim = 128;
  std::map<std::set<std::string>, std::string> forward_functions;
  for (const Kernel& kernel : kernels())
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const Tiling t = kernel.tiling(p, pass);
      if (!kernel.fault(p, t, pass).empty()) continue;
      CAPTURE(full_name(kernel));
      const std::vector<std::string> names = launched_functions(kernel, p, t, pass, room.tensors());
      REQUIRE_FALSE(names.empty());
      const std::string folder = kernel.name == "standard-cublas" ? "standard" : kernel.name;
      for (const std::string& name : names) {
        INFO(name);
        CHECK((is_ours(name) ? name.find(folder) != std::string::npos : kernel.name == "standard-cublas"));
      }
      if (kernel.name == "standard-cublas")
        CHECK(std::count_if(names.begin(), names.end(), [](const std::string& n) { return !is_ours(n); }) >=
              (pass == Pass::forward ? 2 : 4));
      if (pass == Pass::forward) {
        const auto [same, is_new] =
            forward_functions.emplace(std::set<std::string>(names.begin(), names.end()), full_name(kernel));
        INFO("the same functions as ", same->second);
        // fa3's schedules by name: one of them is fa3's own choice.
        CHECK((is_new || (kernel.name == "fa3" && same->second == "fa3")));
      }
    }
}

TEST_CASE("dtype, head_dim and number of splits choose other functions or more of them") {
  const Room room;
  Problem p;
  p.heads_q = p.heads_kv = 2, p.seqlen_q = p.seqlen_k = 256, p.head_dim = 128;
  const Kernel* const fa2 = find_kernel("fa2");
  const Kernel* const decoding = find_kernel("decoding");
  REQUIRE(fa2 != nullptr);
  REQUIRE(decoding != nullptr);
  const auto functions = [&](const Kernel& kernel, const Problem& q, int splits = 0) {
    Tiling t = kernel.tiling(q, Pass::forward);
    if (splits > 0) t.num_splits = splits;
    return launched_functions(kernel, q, t, Pass::forward, room.tensors());
  };
  Problem other = p;
  other.dtype = Dtype::bf16;
  CHECK(functions(*fa2, other) != functions(*fa2, p));
  other = p;
  other.head_dim = 64;
  CHECK(functions(*fa2, other) != functions(*fa2, p));
  CHECK(functions(*decoding, p, 1).size() == 1);
  CHECK(functions(*decoding, p, 2).size() == 2);
}

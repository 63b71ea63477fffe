// The same input again and again: a result that moves is a race between loads, products and stores.
#include <doctest/doctest.h>

#include "cpu_reference/random.h"
#include "gpu_kernels/check/inputs.h"
#include "tests/gpu_kernels/difference_count.h"

using namespace flashsim;
using namespace flashsim::gpu;

namespace {

constexpr int launches = 1000;
constexpr int poison = 0xff;  ///< NaN

DeviceBuffer random_input(const Problem& p, std::uint32_t id, int heads, int rows) {
  const auto n = static_cast<std::size_t>(elements(p, heads, rows, p.head_dim));
  const std::vector<unsigned char> bytes =
      encode(p.dtype == Dtype::e4m3 ? Dtype::fp16 : p.dtype, random_tensor(Distribution::outliers, 5, id, n));
  DeviceBuffer buffer(bytes.size());
  buffer.copy_from_host(bytes.data(), bytes.size());
  return buffer;
}

struct RandomInputs {
  DeviceBuffer q, k, v;
  explicit RandomInputs(const Problem& p)
      : q(random_input(p, tensor_id::q, p.heads_q, p.seqlen_q)),
        k(random_input(p, tensor_id::k, p.heads_kv, p.seqlen_k)),
        v(random_input(p, tensor_id::v, p.heads_kv, p.seqlen_k)) {}
};

/// Words of O and LSE that differ from the first launch's, over all launches.
std::uint64_t moved(const Kernel& kernel, const Problem& p, const RandomInputs& inputs,
                    int times = launches) {
  const Tiling t = kernel.tiling(p, Pass::forward);
  const auto rows = static_cast<std::size_t>(elements(p, p.heads_q, p.seqlen_q, 1));
  DeviceBuffer first_o(inputs.q.bytes()), first_lse(rows * 4), o(inputs.q.bytes()), lse(rows * 4),
      workspace(kernel.workspace_bytes(p, t, Pass::forward));
  DifferenceCount different;
  for (int i = 0; i < times; ++i) {
    DeviceBuffer &to = i == 0 ? first_o : o, &to_lse = i == 0 ? first_lse : lse;
    for (DeviceBuffer* b : {&to, &to_lse, &workspace}) b->fill_bytes(poison);
    Tensors x;
    x.q = inputs.q.data(), x.k = inputs.k.data(), x.v = inputs.v.data(), x.o = to.data();
    x.lse = static_cast<float*>(to_lse.data()), x.workspace = workspace.data();
    kernel.launch(p, t, Pass::forward, x, nullptr);
    different.add(first_o, to);
    different.add(first_lse, to_lse);
  }
  return different.words();
}

}  // namespace

// Where a tile is one block of K, Q's buffer soon comes round again: without a proxy fence before it is given
// back, one launch of 21,000 had a wrong row.
TEST_CASE("fa3: a tile's Q stays until it has been read, in 100,000 launches") {
  const Kernel* const fa3 = find_kernel("fa3");
  Problem p;
  p.batch = 4, p.heads_q = 24, p.heads_kv = 12, p.seqlen_q = p.seqlen_k = 600, p.head_dim = 128;
  p.causal = true;
  p.dtype = Dtype::fp16;
  if (!fa3->fault(p, fa3->tiling(p, Pass::forward), Pass::forward).empty()) {
    MESSAGE("not run: fa3 does not run on this device");
    return;
  }
  CHECK(moved(*fa3, p, RandomInputs(p), 100'000) == 0);
}

TEST_CASE("fa3: 1,000 launches give the same bits") {
  bool ran = false;
  for (const Dtype dtype : {Dtype::fp16, Dtype::bf16, Dtype::e4m3})
    for (const int d : {64, 128, 256}) {
      Problem p;  // 480 tiles: several to every SM
      p.batch = 4, p.heads_q = 24, p.heads_kv = 12, p.seqlen_q = p.seqlen_k = 600, p.head_dim = d;
      p.dtype = dtype;
      const RandomInputs inputs(p);
      for (const Kernel& kernel : kernels())
        for (const bool causal : {false, true}) {
          p.causal = causal;
          if (kernel.name != "fa3" || kernel.variant == "fp8-forward-only" ||
              !kernel.fault(p, kernel.tiling(p, Pass::forward), Pass::forward).empty())
            continue;
          CAPTURE(kernel.variant);
          CAPTURE(describe(p));
          CHECK(moved(kernel, p, inputs) == 0);
          ran = true;
        }
    }
  if (!ran) MESSAGE("not run: fa3 does not run on this device");
}

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "gpu_kernels/check/check_run.h"

using namespace flashsim;
using namespace flashsim::gpu;

namespace {

Problem problem() {
  Problem p;
  p.heads_q = p.heads_kv = 2;
  p.seqlen_q = p.seqlen_k = 128;
  p.head_dim = 128;
  return p;
}

/// What the kernel says against a problem, asked with its own tiling.
std::string fault(const Kernel& kernel, const Problem& p, Pass pass = Pass::forward) {
  return kernel.fault(p, kernel.tiling(p, pass), pass);
}

}  // namespace

TEST_CASE("names are unique and find their kernel") {
  std::set<std::string> names;
  for (const Kernel& kernel : kernels()) {
    CAPTURE(full_name(kernel));
    CHECK(names.insert(full_name(kernel)).second);
    CHECK(find_kernel(kernel.name, kernel.variant) == &kernel);
    CHECK_FALSE(kernel.idea.empty());
    CHECK(matches(full_name(kernel), kernel));
    CHECK(matches(kernel.name, kernel));
    CHECK_FALSE(matches(kernel.name + "x", kernel));
  }
  CHECK(find_kernel("no such kernel") == nullptr);
  CHECK(find_kernel("fa2", "no such variant") == nullptr);
  if (kernels().empty()) CHECK(why_no_gpu().find("without CUDA") != std::string::npos);
}

TEST_CASE("tilings are valid, and each kernel takes its own") {
  for (const Kernel& kernel : kernels())
    for (const Dtype dtype : {Dtype::fp16, Dtype::bf16})
      for (const int d : {8, 64, 72, 128, 136, 256}) {
        CAPTURE(full_name(kernel));
        CAPTURE(d);
        Problem p = problem();
        p.dtype = dtype, p.head_dim = d;
        CHECK(fault_of(kernel.tiling(p, Pass::forward)).empty());
        if (kernel.name == "fa1" || kernel.name == "fa2" || kernel.name == "standard") {
          CHECK(fault(kernel, p).empty());
          CHECK(fault(kernel, p, Pass::backward).empty());
        }
        if (kernel.name == "decoding") CHECK(fault(kernel, p).empty());
      }
}

TEST_CASE("what a kernel does not compute is refused with a reason, before anything is launched") {
  for (const Kernel& kernel : kernels()) {
    CAPTURE(full_name(kernel));
    const auto refused = [&kernel](const Problem& p, Tiling t, Pass pass = Pass::forward) {
      const std::string reason = kernel.fault(p, t, pass);
      if (reason.empty()) return false;
      CHECK(reason.size() > 10);
      try {
        kernel.launch(p, t, pass, Tensors{}, nullptr);
      } catch (const Unsupported& error) {
        CHECK(std::string(error.what()).find(reason) != std::string::npos);
        return true;
      }
      return false;
    };
    Problem p = problem();
    Tiling t = kernel.tiling(p, Pass::forward);
    if (kernel.name != "softmax") {  // whose rows know no head_dim and no tile
      p.head_dim = 12;
      CHECK(refused(p, t));
      p.head_dim = 264;
      CHECK(refused(p, t));
      t.block_k += 8;
      CHECK(refused(problem(), t));
    }
    p = problem();
    t = kernel.tiling(p, Pass::forward);
    p.dtype = Dtype::fp64;
    CHECK(refused(p, t));
    p = problem();
    p.heads_q = 3;
    CHECK(refused(p, t));
    p = problem();
    p.seqlen_k = 0;
    CHECK(refused(p, t));
    p = problem();
    p.dropout_p = 1.5F;
    CHECK(refused(p, t));
    if (kernel.name == "decoding" || kernel.name == "softmax") CHECK(refused(problem(), t, Pass::backward));
  }
}

TEST_CASE("another order of thread blocks: fa2 and fa3 take it, the others say why not") {
  const auto is_fa3 = [](const Kernel& k) { return k.name == "fa3" && k.variant != "fp8-forward-only"; };
  for (const Kernel& kernel : kernels())
    for (const bool causal : {false, true}) {
      CAPTURE(full_name(kernel));
      CAPTURE(causal);
      Problem p = problem();
      p.causal = causal;
      const Tiling own = kernel.tiling(p, Pass::forward);
      if (!kernel.fault(p, own, Pass::forward).empty()) continue;  // no GPU that could
      const ChosenOrder first{BlockOrder::first_to_last, {}}, last{BlockOrder::last_to_first, {}},
          turns{{}, own.heads_together + 1};
      const bool takes = kernel.name == "fa2" || (is_fa3(kernel) && causal);
      for (const ChosenOrder& order : {first, last}) {
        CHECK(order.of(own).order == *order.order);
        const std::string reason = kernel.fault(p, order.of(own), Pass::forward);
        CHECK(reason.empty() == (takes || order.of(own) == own));
      }
      CHECK(kernel.fault(p, turns.of(own), Pass::forward).empty() == takes);
      CHECK(variants_of(kernel, p, first).front().forward.order == BlockOrder::first_to_last);
      CHECK(variants_of(kernel, p, turns).front().forward.heads_together == own.heads_together + 1);
      CHECK(variants_of(kernel, p).front().forward == own);
    }
}

TEST_CASE("fa3 under a mask: as many heads take turns as have 32 MiB of K and V, or even sections") {
  const Kernel* const fa3 = find_kernel("fa3");
  if (fa3 == nullptr) return;  // without CUDA
  Problem p = problem();
  p.causal = true, p.seqlen_q = p.seqlen_k = 2048;  // 1 MiB a K/V head
  const auto together = [&](int batch, int heads_kv, int group) {
    p.batch = batch, p.heads_kv = heads_kv, p.heads_q = heads_kv * group;
    return fa3->tiling(p, Pass::forward).heads_together;
  };
  CHECK(together(1, 1, 1) == 1);
  CHECK(together(1, 32, 1) == 32);
  CHECK(together(2, 32, 1) == 32);
  CHECK(together(1, 33, 1) == 17);   // 17 and 16, not 32 and 1
  CHECK(together(5, 13, 4) == 88);   // 65 groups: 22, 22 and 21
  CHECK(together(1, 56, 1) == 32);   // 24 are left over: enough
  CHECK(together(10, 16, 2) == 64);  // 160 groups are 5 times 32
  p.seqlen_k = 1 << 20;              // 512 MiB a K/V head: one group at a time
  CHECK(together(1, 7, 8) == 8);
  p.seqlen_k = 2048, p.causal = false;
  CHECK(together(1, 33, 1) == 1);
}

TEST_CASE("fa3 in e4m3 has its own order of tiles only, but any number of heads that take turns") {
  const Kernel* const fa3 = find_kernel("fa3");
  if (fa3 == nullptr || !fault(*fa3, problem()).empty()) return;  // without CUDA, or on another GPU
  for (const bool causal : {false, true}) {
    Problem p = problem();
    p.dtype = Dtype::e4m3, p.causal = causal;
    Tiling t = fa3->tiling(p, Pass::forward);
    t.order = causal ? BlockOrder::first_to_last : BlockOrder::last_to_first;
    CHECK(fa3->fault(p, t, Pass::forward).find("tiles come") != std::string::npos);
    t = fa3->tiling(p, Pass::forward);
    t.heads_together += 1;
    CHECK(fa3->fault(p, t, Pass::forward).empty() == causal);
    t = fa3->tiling(p, Pass::forward);
    t.late_blocks += 1;
    CHECK(fa3->fault(p, t, Pass::forward).empty() == causal);
    p.dtype = Dtype::fp16;  // has none
    t = fa3->tiling(p, Pass::forward);
    t.late_blocks = 1;
    CHECK(fa3->fault(p, t, Pass::forward).find("compiled is only") != std::string::npos);
  }
}

TEST_CASE("fa3 in e4m3 under a mask, head_dim up to 128: a quarter of every head's tiles ends the launch") {
  const Kernel* const fa3 = find_kernel("fa3");
  if (fa3 == nullptr) return;  // without CUDA
  Problem p = problem();
  p.causal = true, p.seqlen_q = p.seqlen_k = 8192, p.head_dim = 128;
  const auto late = [&](Dtype dtype, int head_dim, bool causal) {
    p.dtype = dtype, p.head_dim = head_dim, p.causal = causal;
    return fa3->tiling(p, Pass::forward).late_blocks;
  };
  CHECK(late(Dtype::e4m3, 128, true) == 16);
  CHECK(late(Dtype::e4m3, 64, true) == 16);
  CHECK(late(Dtype::e4m3, 256, true) == 0);
  CHECK(late(Dtype::e4m3, 128, false) == 0);
  CHECK(late(Dtype::fp16, 128, true) == 0);
}

TEST_CASE("fa3 in e4m3: what it takes, and room for what it quantises") {
  const Kernel* const fa3 = find_kernel("fa3");
  if (fa3 == nullptr || !fault(*fa3, problem()).empty()) return;  // without CUDA, or on another GPU
  const Kernel* const alone = find_kernel("fa3", "fp8-forward-only");
  REQUIRE(alone != nullptr);
  CHECK(fault(*alone, problem()).find("e4m3") != std::string::npos);
  Problem p = problem();
  p.dtype = Dtype::e4m3;
  const Kernel* const online = find_kernel("fa3", "online-max");
  const Kernel* const fixed = find_kernel("fa3", "static");
  REQUIRE(online != nullptr);
  REQUIRE(fixed != nullptr);
  CHECK(fault(*fixed, p).find("online-max for e4m3") != std::string::npos);
  for (const int d : {8, 32, 64, 128, 256}) {
    p.head_dim = d;
    CHECK(fault(*fa3, p).empty());
    CHECK(fault(*alone, p).empty());
    CHECK(fault(*online, p).empty());
    const Tiling t = fa3->tiling(p, Pass::forward);
    CHECK(t.block_k == 128);
    CHECK(fa3->workspace_bytes(p, t, Pass::forward) >=
          static_cast<std::size_t>(elements(p, 3 * p.heads_q, p.seqlen_q, d)));
  }
  p.head_dim = 72;
  CHECK(fault(*fa3, p).find("power of two") != std::string::npos);
  Tiling t = fa3->tiling(p, Pass::forward);
  t.fp8_incoherent_processing = false;  // nothing to rotate, then
  CHECK(fa3->fault(p, t, Pass::forward).empty());
  p.head_dim = 64, p.batch = 65536;
  CHECK(fault(*fa3, p).find("65535 heads") != std::string::npos);
}

TEST_CASE("a missing tensor is named") {
  for (const Kernel& kernel : kernels()) {
    CAPTURE(full_name(kernel));
    Problem p = problem();
    const Tiling t = kernel.tiling(p, Pass::forward);
    if (!kernel.fault(p, t, Pass::forward).empty()) continue;
    CHECK_THROWS_AS(kernel.launch(p, t, Pass::forward, Tensors{}, nullptr), Unsupported);
  }
}

// FlashAttention-2 in the registry.
#include "gpu_kernels/fa2/fa2.h"

#include <limits>

#include "gpu_kernels/common/dispatch.h"
#include "gpu_kernels/common/registry.h"
#include "gpu_kernels/common/shape.cuh"
#include "gpu_kernels/fa2/tilings.h"
#include "gpu_kernels/fa2/workspace.h"

namespace flashsim::gpu {
namespace fa2 {
namespace {

Tiling tiling(const Problem& p, Pass pass) {
  return pass == Pass::forward ? forward_tiling(p) : backward_tiling(padded_head_dim(p.head_dim));
}

std::string fault(const Problem& p, const Tiling& t, Pass pass) {
  const std::string reason = fault_of_16_bit_problem(p);
  if (!reason.empty()) return reason;
  std::string of_tiling = fault_of(t);
  if (!of_tiling.empty()) return of_tiling;
  // The order of thread blocks and determinism are decided at run time; the rest is compiled in.
  Tiling compiled = tiling(p, pass);
  compiled.order = t.order;
  if (pass == Pass::forward) compiled.heads_together = t.heads_together;
  if (pass == Pass::backward) compiled.deterministic = t.deterministic;
  if (t != compiled)
    return "the tiling " + describe(t) + " is not compiled for head_dim " + std::to_string(p.head_dim) +
           "; this one is: " + describe(tiling(p, pass));
  const int block = pass == Pass::forward ? t.block_q : t.block_k;
  const std::int64_t length = pass == Pass::forward ? p.seqlen_q : p.seqlen_k;
  const std::int64_t heads = std::int64_t{p.batch} * (pass == Pass::forward ? p.heads_q : p.heads_kv);
  // The backward's small kernels take at most 64 rows of queries a thread block.
  const std::int64_t blocks =
      std::max(heads * ((length + block - 1) / block),
               pass == Pass::forward ? 0 : std::int64_t{p.batch} * p.heads_q * ((p.seqlen_q + 63) / 64));
  if (blocks > std::numeric_limits<std::int32_t>::max())
    return "the problem takes " + std::to_string(blocks) + " thread blocks; a grid has at most 2147483647";
  return {};
}

std::size_t workspace_bytes(const Problem& p, const Tiling& t, Pass pass) {
  return pass == Pass::forward ? 0 : BackwardWorkspace(p, t.block_q, t.deterministic).bytes();
}

void launch(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream) {
  const std::string reason = fault(p, t, pass);
  if (!reason.empty()) throw Unsupported("fa2: " + reason);
  for (const auto& [tensor, name] : {std::pair{x.q, "q"}, {x.k, "k"}, {x.v, "v"}}) need(tensor, "fa2", name);
  need(x.o, "fa2", "o");
  if (pass == Pass::backward) {
    need(x.d_o, "fa2", "d_o"), need(x.lse, "fa2", "lse"), need(x.workspace, "fa2", "workspace");
    need(x.dq, "fa2", "dq"), need(x.dk, "fa2", "dk"), need(x.dv, "fa2", "dv");
  }
  const bool half = p.dtype == Dtype::fp16;
  if (pass == Pass::forward)
    half ? forward_fp16(p, t, x, stream) : forward_bf16(p, t, x, stream);
  else
    half ? backward_fp16(p, t, x, stream) : backward_bf16(p, t, x, stream);
}

}  // namespace
}  // namespace fa2

std::vector<Kernel> fa2_kernels() {
  return {{"fa2", "", "FlashAttention-2: a thread block per block of queries, warps split Q (mma.sync)",
           fa2::fault, fa2::tiling, fa2::workspace_bytes, fa2::launch}};
}

}  // namespace flashsim::gpu

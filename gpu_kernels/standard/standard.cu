// Standard attention as the papers write it, on products of our own: S and P go through memory.
//
//   forward   S = scale Q K^T   P = softmax(S)   O = P V
//   backward  dV = P^T dO   dP = dO V^T   dS = P o (dP - D), D = rowsum(P o dP)   dQ = scale dS K   dK =
//   scale dS^T Q
//
// (Dao et al. 2022, Algorithms 0 and 3.) S and P have the inputs' dtype; the backward pass reads the P of the
// forward pass and keeps dP and dS in the workspace. Their rows are padded to whole sectors
// (cpu_reference/score_layout.h). Requested bytes: see products.cuh and rows.cu, added
// up. Without a mask and with 128 dividing both lengths, per head with W = e n_q n_k, u_q = e n_q d, u_k = e
// n_k d, T_r = n_q / 128, T_c = n_k / 128:
//   forward   4 W + T_c u_q + T_r u_k (S) + T_r u_k + u_q (O)
//   backward  7 W + 2 (T_c u_q + u_k) (dV, dK) + T_c u_q + T_r u_k (dP) + T_r u_k + u_q (dQ)
//
// Tiles that the mask hides completely are neither computed, nor written, nor read: what S and P hold there
// is undefined. Within visible tiles hidden elements are -inf in S and 0 in P and dS.
//
// What still hurts: all of it, which is the point. At n = 1024 and d = 64, S and P are 72 % of these bytes.
#include "gpu_kernels/standard/standard.h"

#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/dispatch.h"
#include "gpu_kernels/common/registry.h"
#include "gpu_kernels/standard/products.cuh"

namespace flashsim::gpu {
namespace standard {
namespace {

std::int64_t count(int heads, const Problem& p, int down, int across) {
  return std::int64_t{p.batch} * heads * down * across;
}

void forward(const Problem& p, const Tensors& x, void* stream) {
  need(x.q, "standard", "q"), need(x.k, "standard", "k"), need(x.v, "standard", "v");
  need(x.s, "standard", "s"), need(x.p, "standard", "p"), need(x.o, "standard", "o");
  const Shape s = shape_of(p);
  const int pitch = static_cast<int>(score_pitch(p));
  const int row_blocks = ceil_div(p.seqlen_q, kBlock), col_blocks = ceil_div(p.seqlen_k, kBlock);
  with_type_and_dim(p, [&](auto type, auto dim) {
    using T = typename decltype(type)::type;
    launch("S = Q K^T", tile_product<T, dim>, dim3(unsigned(count(p.heads_q, p, row_blocks, col_blocks))),
           kThreads, tile_product_shared<T, dim>(), stream, s,
           ProductArguments<T>{static_cast<const T*>(x.q), static_cast<const T*>(x.k), static_cast<T*>(x.s),
                               s.scale, -INFINITY, pitch});
    softmax_rows(p, Extent::visible_tiles, x.s, x.p, stream);
    launch("O = P V", row_product<T, dim>, dim3(unsigned(count(p.heads_q, p, row_blocks, 1))), kThreads,
           sum_product_shared<T, dim>(), stream, s,
           ProductArguments<T>{static_cast<const T*>(x.p), static_cast<const T*>(x.v), static_cast<T*>(x.o),
                               1, 0, pitch});
  });
}

void backward(const Problem& p, const Tensors& x, void* stream) {
  need(x.q, "standard", "q"), need(x.k, "standard", "k"), need(x.v, "standard", "v"),
      need(x.p, "standard", "p");
  need(x.d_o, "standard", "d_o"), need(x.workspace, "standard", "workspace");
  need(x.dq, "standard", "dq"), need(x.dk, "standard", "dk"), need(x.dv, "standard", "dv");
  const Shape s = shape_of(p);
  const int pitch = static_cast<int>(score_pitch(p));
  const int row_blocks = ceil_div(p.seqlen_q, kBlock), col_blocks = ceil_div(p.seqlen_k, kBlock);
  with_type_and_dim(p, [&](auto type, auto dim) {
    using T = typename decltype(type)::type;
    const T *q = static_cast<const T*>(x.q), *k = static_cast<const T*>(x.k), *v = static_cast<const T*>(x.v);
    const T *d_o = static_cast<const T*>(x.d_o), *probabilities = static_cast<const T*>(x.p);
    T *const dp = static_cast<T*>(x.workspace), *const ds = dp + ds_offset(p);
    const dim3 tiles(unsigned(count(p.heads_q, p, row_blocks, col_blocks)));
    const dim3 rows(unsigned(count(p.heads_q, p, row_blocks, 1)));
    const dim3 columns(unsigned(count(p.heads_kv, p, col_blocks, 1)));
    const int shared = sum_product_shared<T, dim>();
    launch("dV = P^T dO", column_product<T, dim>, columns, kThreads, shared, stream, s,
           ProductArguments<T>{probabilities, d_o, static_cast<T*>(x.dv), 1, 0, pitch});
    launch("dP = dO V^T", tile_product<T, dim>, tiles, kThreads, tile_product_shared<T, dim>(), stream, s,
           ProductArguments<T>{d_o, v, dp, 1, 0, pitch});
    softmax_gradient_rows(p, Extent::visible_tiles, probabilities, dp, ds, stream);
    launch("dQ = dS K", row_product<T, dim>, rows, kThreads, shared, stream, s,
           ProductArguments<T>{ds, k, static_cast<T*>(x.dq), s.scale, 0, pitch});
    launch("dK = dS^T Q", column_product<T, dim>, columns, kThreads, shared, stream, s,
           ProductArguments<T>{ds, q, static_cast<T*>(x.dk), s.scale, 0, pitch});
  });
}

void run(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream) {
  refuse_faults("standard", fault_of_standard(p, t, pass));
  pass == Pass::forward ? forward(p, x, stream) : backward(p, x, stream);
}

}  // namespace

std::string fault_of_standard(const Problem& p, const Tiling& t, Pass pass) {
  std::string fault = fault_of_16_bit_problem(p);
  if (fault.empty()) fault = fault_of(t);
  if (fault.empty()) fault = fault_of_blocks(t, kBlock, kBlock);
  if (fault.empty()) fault = fault_of_order(t);
  if (!fault.empty()) return fault;
  if (p.dropout_p > 0) return "standard attention has no dropout here; fa1 and fa2 have";
  const int longest = kRowBytes / (pass == Pass::forward ? 2 : 4) / 16 * 16;  // whole sectors
  if (p.seqlen_k > longest)
    return "seqlen_k is " + std::to_string(p.seqlen_k) +
           "; a row of S (backward: of P and dP) must fit shared memory, " + std::to_string(longest) +
           " keys at most";
  if (p.seqlen_q > (1 << 27)) return "seqlen_q must be at most 2^27";
  fault = fault_of_grid(count(p.heads_q, p, p.seqlen_q, 1));  // the row kernels' threads and the tiles
  if (fault.empty())
    fault = fault_of_grid(count(p.heads_q, p, ceil_div(p.seqlen_q, kBlock), ceil_div(p.seqlen_k, kBlock)));
  return fault;
}

Tiling tiling_of_standard(const Problem&, Pass) {
  Tiling t;
  t.block_q = t.block_k = kBlock;
  t.warps = kThreads / 32;
  return t;
}

std::int64_t ds_offset(const Problem& p) {  // rounded up to 256 bytes
  return (score_elements(p) + 127) / 128 * 128;
}

std::size_t workspace_of_standard(const Problem& p, const Tiling&, Pass pass) {
  return pass == Pass::forward ? 0 : std::size_t(2 * ds_offset(p)) * 2;
}

Kernel own_products() {
  return {"standard",
          "",
          "S and P written to memory and read back: the papers' baseline",
          fault_of_standard,
          tiling_of_standard,
          workspace_of_standard,
          run};
}

}  // namespace standard

std::vector<Kernel> standard_kernels() { return {standard::own_products(), standard::cublas_products()}; }

}  // namespace flashsim::gpu

// FlashAttention as published in 2022, literally: launchers and registry entry. The kernels, their bytes and
// what hurts are described in forward.cuh and backward.cuh.
#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/dispatch.h"
#include "gpu_kernels/common/registry.h"
#include "gpu_kernels/fa1/backward.cuh"
#include "gpu_kernels/fa1/forward.cuh"

namespace flashsim::gpu {
namespace fa1 {
namespace {

int cols_of(const Problem& p, Pass pass) {
  const int dim = padded_head_dim(p.head_dim);
  return pass == Pass::forward ? forward_cols(dim) : backward_cols(dim);
}

std::string fault(const Problem& p, const Tiling& t, Pass pass) {
  std::string found = fault_of_16_bit_problem(p);
  if (found.empty()) found = fault_of(t);
  if (found.empty()) found = fault_of_blocks(t, kRows, cols_of(p, pass));
  if (found.empty()) found = fault_of_order(t);
  if (!found.empty()) return found;
  if (t.temporaries != Dtype::fp32 && t.temporaries != p.dtype)
    return std::string("temporaries are ") + name_of(t.temporaries) +
           "; fa1 keeps them in fp32 or in the inputs' " + name_of(p.dtype);
  return fault_of_grid(std::int64_t{p.batch} * p.heads_kv);
}

Tiling tiling(const Problem& p, Pass pass) {
  Tiling t;
  t.block_q = kRows;
  t.block_k = cols_of(p, pass);
  t.warps = kWarps;
  t.split = WarpSplit::key;
  return t;
}

std::size_t workspace_bytes(const Problem& p, const Tiling& t, Pass) {
  if (t.temporaries != Dtype::fp32) return 0;
  return std::size_t(elements(p, p.heads_q, p.seqlen_q, p.head_dim)) * sizeof(float);
}

template <class T>
void launch_initialise(const Problem& p, const Shape& s, const Temporary<T>& x, float* l, float* m,
                       float* lse, int block_k, void* stream) {
  const std::int64_t blocks = (elements(p, p.heads_q, p.seqlen_q, p.head_dim / 8) + 255) / 256;
  launch("fa1, initialise", initialise<T>, dim3(unsigned(std::min<std::int64_t>(blocks, 1 << 20))), 256, 0,
         stream, s, x, l, m, lse, block_k);
}

void run(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream) {
  const char* const name = "fa1";
  refuse_faults(name, fault(p, t, pass));
  need(x.q, name, "q"), need(x.k, name, "k"), need(x.v, name, "v"), need(x.o, name, "o");
  need(x.l, name, "l"), need(x.m, name, "m");
  if (t.temporaries == Dtype::fp32) need(x.workspace, name, "workspace");
  const Shape s = shape_of(p);
  const dim3 heads(unsigned(std::int64_t{p.batch} * p.heads_kv));
  with_type_and_dim(p, [&](auto type, auto dim) {
    using T = typename decltype(type)::type;
    float* const wide = t.temporaries == Dtype::fp32 ? static_cast<float*>(x.workspace) : nullptr;
    const T *q = static_cast<const T*>(x.q), *k = static_cast<const T*>(x.k), *v = static_cast<const T*>(x.v);
    if (pass == Pass::forward) {
      const Temporary<T> o{wide, static_cast<T*>(x.o)};
      launch_initialise(p, s, o, x.l, x.m, x.lse, t.block_k, stream);
      launch("fa1, forward", forward_kernel<T, dim>, heads, kThreads, sizeof(ForwardShared<T, dim>), stream,
             s, ForwardArguments<T>{q, k, v, o, x.l, x.m, x.lse});
    } else {
      need(x.d_o, name, "d_o"), need(x.dq, name, "dq"), need(x.dk, name, "dk"), need(x.dv, name, "dv");
      const Temporary<T> dq{wide, static_cast<T*>(x.dq)};
      launch_initialise<T>(p, s, dq, nullptr, nullptr, nullptr, t.block_k, stream);
      launch("fa1, backward", backward_kernel<T, dim>, heads, kThreads, sizeof(BackwardShared<T, dim>),
             stream, s,
             BackwardArguments<T>{q, k, v, static_cast<const T*>(x.o), static_cast<const T*>(x.d_o), x.l, x.m,
                                  dq, static_cast<T*>(x.dk), static_cast<T*>(x.dv)});
    }
  });
}

}  // namespace
}  // namespace fa1

std::vector<Kernel> fa1_kernels() {
  return {{"fa1", "", "K and V outside, one thread block a head; O, l, m through memory at every visit",
           fa1::fault, fa1::tiling, fa1::workspace_bytes, fa1::run}};
}

}  // namespace flashsim::gpu

#include "gpu_kernels/c_api.h"

#include <string>

#include "gpu_kernels/kernels.h"

namespace {

using namespace flashsim;
using namespace flashsim::gpu;

thread_local std::string last_error;

std::int32_t fail(std::int32_t code, const std::string& message) {
  last_error = message;
  return code;
}

Problem problem_of(const flashsim_problem& c) {
  Problem p;
  p.batch = c.batch, p.heads_q = c.heads_q, p.heads_kv = c.heads_kv;
  p.seqlen_q = c.seqlen_q, p.seqlen_k = c.seqlen_k, p.head_dim = c.head_dim;
  p.dtype = static_cast<Dtype>(c.dtype);
  p.causal = c.causal != 0, p.window_left = c.window_left, p.window_right = c.window_right;
  p.softmax_scale = c.softmax_scale, p.dropout_p = c.dropout_p, p.dropout_seed = c.dropout_seed;
  return p;
}

Tiling tiling_of(const Kernel& kernel, const Problem& p, const flashsim_problem& c, Pass pass) {
  Tiling t = kernel.tiling(p, pass);
  if (c.narrow_temporaries != 0) t.temporaries = p.dtype;
  if (c.deterministic != 0) t.deterministic = true;
  if (c.num_splits > 0) t.num_splits = c.num_splits;
  return t;
}

/// Calls use(kernel, problem, tiling, pass) and turns what is thrown into codes.
template <class Use>
std::int32_t with_kernel(const char* name, const char* variant, const flashsim_problem& c, bool backward,
                         Use use) {
  try {
    const Kernel* const kernel = find_kernel(name, variant);
    if (kernel == nullptr)
      return fail(FLASHSIM_NO_SUCH_KERNEL, std::string("there is no kernel '") + name + "', variant '" +
                                               variant + "'" +
                                               (kernels().empty() ? ": " + why_no_gpu() : std::string()));
    if (c.dtype < static_cast<int>(Dtype::fp64) || c.dtype > static_cast<int>(Dtype::e4m3))
      return fail(FLASHSIM_UNSUPPORTED, "dtype is " + std::to_string(c.dtype) + "; expected 0 to 4");
    const Problem p = problem_of(c);
    if (const std::string fault = fault_of(p); !fault.empty()) return fail(FLASHSIM_UNSUPPORTED, fault);
    const Pass pass = backward ? Pass::backward : Pass::forward;
    const Tiling t = tiling_of(*kernel, p, c, pass);
    if (const std::string fault = kernel->fault(p, t, pass); !fault.empty())
      return fail(FLASHSIM_UNSUPPORTED, fault);
    use(*kernel, p, t, pass);
    return FLASHSIM_OK;
  } catch (const Unsupported& error) {
    return fail(FLASHSIM_UNSUPPORTED, error.what());
  } catch (const std::exception& error) {
    return fail(FLASHSIM_CUDA_ERROR, error.what());
  }
}

const Kernel* kernel_at(std::int32_t index) {
  const bool exists = index >= 0 && static_cast<std::size_t>(index) < kernels().size();
  return exists ? &kernels()[static_cast<std::size_t>(index)] : nullptr;
}

}  // namespace

extern "C" {

const char* flashsim_error(void) { return last_error.c_str(); }

const char* flashsim_kernel_name(std::int32_t index) {
  const Kernel* const kernel = kernel_at(index);
  return kernel == nullptr ? nullptr : kernel->name.c_str();
}

const char* flashsim_kernel_variant(std::int32_t index) {
  const Kernel* const kernel = kernel_at(index);
  return kernel == nullptr ? nullptr : kernel->variant.c_str();
}

std::int32_t flashsim_supports(const char* name, const char* variant, const flashsim_problem* problem,
                               std::int32_t backward, std::size_t* bytes) {
  return with_kernel(name, variant, *problem, backward != 0,
                     [bytes](const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass) {
                       if (bytes != nullptr) *bytes = kernel.workspace_bytes(p, t, pass);
                     });
}

std::int32_t flashsim_launch(const char* name, const char* variant, const flashsim_problem* problem,
                             std::int32_t backward, const flashsim_tensors* tensors, void* stream) {
  return with_kernel(name, variant, *problem, backward != 0,
                     [&](const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass) {
                       Tensors x;
                       x.q = tensors->q, x.k = tensors->k, x.v = tensors->v, x.o = tensors->o;
                       x.lse = static_cast<float*>(tensors->lse);
                       x.l = static_cast<float*>(tensors->l), x.m = static_cast<float*>(tensors->m);
                       x.s = tensors->s, x.p = tensors->p, x.d_o = tensors->d_o;
                       x.dq = tensors->dq, x.dk = tensors->dk, x.dv = tensors->dv;
                       x.q_scale = static_cast<const float*>(tensors->q_scale);
                       x.k_scale = static_cast<const float*>(tensors->k_scale);
                       x.v_scale = static_cast<const float*>(tensors->v_scale);
                       x.workspace = tensors->workspace;
                       kernel.launch(p, t, pass, x, stream);
                     });
}

}  // extern "C"

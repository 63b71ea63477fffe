#include "gpu_kernels/measure/workload.h"

#include "cpu_reference/score_layout.h"
#include "gpu_kernels/measure/streams.h"

namespace flashsim::gpu {

void Workload::leave_gap() {
  constexpr std::size_t page = std::size_t{2} << 20;
  if (place_ != 0) gaps_.emplace_back(gap_() % 16 * page);
}

void* Workload::allocate(std::size_t bytes) {
  leave_gap();
  buffers_.emplace_back(bytes);
  if (bytes > 0) buffers_.back().fill_bytes(0);
  return buffers_.back().data();
}

void* Workload::random(std::int64_t count, Dtype dtype) {
  if (dtype != Dtype::fp16 && dtype != Dtype::bf16)
    throw Unsupported(std::string("inputs in ") + name_of(dtype) + " cannot be made here; use fp16 or bf16");
  leave_gap();
  buffers_.emplace_back(static_cast<std::size_t>(count) * 2);
  fill_normal(buffers_.back().data(), static_cast<std::size_t>(count), dtype, buffers_.size());
  return buffers_.back().data();
}

Workload::Workload(const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass, unsigned place)
    : kernel_(kernel), p_(p), t_(t), pass_(pass), gap_(place), place_(place) {
  const std::string fault = kernel.fault(p, t, pass);
  if (!fault.empty()) throw Unsupported(kernel.name + ": " + fault);
  const std::int64_t q_side = elements(p, p.heads_q, p.seqlen_q, p.head_dim),
                     k_side = elements(p, p.heads_kv, p.seqlen_k, p.head_dim),
                     rows = elements(p, p.heads_q, p.seqlen_q, 1);
  const bool keeps_scores = kernel.name == "standard" || kernel.name == "softmax";
  const Dtype stored = p.dtype == Dtype::e4m3 ? Dtype::fp16 : p.dtype;
  const auto element = static_cast<std::size_t>(bytes_of(stored));
  Tensors& x = tensors_;
  x.q = random(q_side, stored);
  x.k = random(k_side, stored);
  x.v = random(k_side, stored);
  x.o = allocate(static_cast<std::size_t>(q_side) * element);
  if (kernel.name == "fa1") {  // its paper's outputs are O, l and m; LSE would be written beside them
    x.l = static_cast<float*>(allocate(static_cast<std::size_t>(rows) * 4));
    x.m = static_cast<float*>(allocate(static_cast<std::size_t>(rows) * 4));
  } else {
    x.lse = static_cast<float*>(allocate(static_cast<std::size_t>(rows) * 4));
  }
  if (keeps_scores) {
    x.s = random(score_elements(p), p.dtype);
    x.p = allocate(static_cast<std::size_t>(score_elements(p)) * element);
  }
  x.workspace = allocate(kernel.workspace_bytes(p, t, pass));
  if (pass == Pass::backward) {
    const Tiling forward = kernel.tiling(p, Pass::forward);
    const DeviceBuffer workspace(kernel.workspace_bytes(p, forward, Pass::forward));
    Tensors y = x;
    y.workspace = workspace.data();
    kernel.launch(p, forward, Pass::forward, y, nullptr);
    synchronize();
    x.d_o = random(q_side, p.dtype);
    x.dq = allocate(static_cast<std::size_t>(q_side) * element);
    x.dk = allocate(static_cast<std::size_t>(k_side) * element);
    x.dv = allocate(static_cast<std::size_t>(k_side) * element);
  }
}

std::size_t Workload::bytes() const {
  std::size_t sum = 0;
  for (const DeviceBuffer& b : buffers_) sum += b.bytes();
  return sum;
}

}  // namespace flashsim::gpu

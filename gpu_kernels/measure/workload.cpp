#include "gpu_kernels/measure/workload.h"

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "cpu_reference/score_layout.h"
#include "gpu_kernels/measure/streams.h"

namespace flashsim::gpu {
namespace {

constexpr std::size_t alignment = 256, page = std::size_t{2} << 20;

/// A tensor to be.
struct Part {
  std::int64_t count = 0;
  std::size_t bytes = 0, offset = 0;
  bool random = false;  ///< an input; else zeros
  Dtype dtype{};        ///< of an input
  std::function<void(void*)> point_to;
};

class Parts {
 public:
  template <class Pointer>
  void add(Pointer& pointer, std::int64_t count, std::size_t element) {
    parts_.push_back({count, static_cast<std::size_t>(count) * element, 0, false, Dtype::fp32,
                      [&pointer](void* at) { pointer = static_cast<Pointer>(at); }});
  }
  template <class Pointer>
  void add_input(Pointer& pointer, std::int64_t count, Dtype dtype) {
    if (dtype != Dtype::fp16 && dtype != Dtype::bf16)
      throw Unsupported(std::string("inputs in ") + name_of(dtype) +
                        " cannot be made here; use fp16 or bf16");
    add(pointer, count, 2);
    parts_.back().random = true, parts_.back().dtype = dtype;
  }
  /// Bytes of all, where they lie.
  std::size_t place(Layout layout) {
    std::mt19937 gap(layout.place);
    std::size_t at = layout.apart ? 0 : layout.place * std::size_t{5} % 16 * page;
    for (Part& part : parts_) {
      if (layout.apart) at += gap() % 16 * page;
      part.offset = at;
      at += (part.bytes + alignment - 1) / alignment * alignment;
    }
    return at;
  }
  void fill(DeviceBuffer& memory) const {
    memory.fill_bytes(0);
    std::uint64_t seed = 0;
    for (const Part& part : parts_) {
      void* const at = static_cast<char*>(memory.data()) + part.offset;
      part.point_to(at);
      ++seed;
      if (part.random) fill_normal(at, static_cast<std::size_t>(part.count), part.dtype, seed);
    }
  }

 private:
  std::vector<Part> parts_;
};

}  // namespace

Workload::Workload(const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass, Layout layout)
    : kernel_(kernel), p_(p), t_(t), pass_(pass) {
  const std::string fault = kernel.fault(p, t, pass);
  if (!fault.empty()) throw Unsupported(kernel.name + ": " + fault);
  const std::int64_t q_side = elements(p, p.heads_q, p.seqlen_q, p.head_dim),
                     k_side = elements(p, p.heads_kv, p.seqlen_k, p.head_dim),
                     rows = elements(p, p.heads_q, p.seqlen_q, 1);
  const bool backward = pass == Pass::backward,
             keeps_scores = kernel.name == "standard" || kernel.name == "softmax";
  const Dtype stored = p.dtype == Dtype::e4m3 ? Dtype::fp16 : p.dtype;
  const auto element = static_cast<std::size_t>(bytes_of(stored));
  Tensors& x = tensors_;
  Parts parts;
  parts.add_input(x.k, k_side, stored);
  parts.add_input(x.v, k_side, stored);
  if (backward) parts.add(x.dk, k_side, element), parts.add(x.dv, k_side, element);
  parts.add(x.o, q_side, element);
  parts.add_input(x.q, q_side, stored);
  if (backward) parts.add_input(x.d_o, q_side, p.dtype);
  if (kernel.name == "fa1") {  // its paper's outputs are O, l and m; LSE would be written beside them
    parts.add(x.l, rows, sizeof(float));
    parts.add(x.m, rows, sizeof(float));
  } else {
    parts.add(x.lse, rows, sizeof(float));
  }
  parts.add(x.workspace, static_cast<std::int64_t>(kernel.workspace_bytes(p, t, pass)), 1);
  if (backward) parts.add(x.dq, q_side, element);
  if (keeps_scores) {
    parts.add_input(x.s, score_elements(p), p.dtype);
    parts.add(x.p, score_elements(p), element);
  }
  memory_ = DeviceBuffer(parts.place(layout));
  parts.fill(memory_);
  if (backward) {
    const Tiling forward = kernel.tiling(p, Pass::forward);
    const DeviceBuffer workspace(kernel.workspace_bytes(p, forward, Pass::forward));
    Tensors y = x;
    y.workspace = workspace.data();
    kernel.launch(p, forward, Pass::forward, y, nullptr);
    synchronize();
  }
}

}  // namespace flashsim::gpu

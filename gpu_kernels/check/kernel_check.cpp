#include "gpu_kernels/check/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_reference/rounding.h"
#include "cpu_reference/score_layout.h"
#include "gpu_kernels/fa2/tilings.h"

namespace flashsim::gpu {
namespace {

constexpr int poison = 0xff;  ///< NaN in fp16, bf16 and fp32

bool is_softmax(const Kernel& k) { return k.name == "softmax"; }
bool is_standard(const Kernel& k) { return k.name == "standard" || k.name == "standard-cublas"; }

DeviceBuffer on_device(Dtype dtype, const std::vector<double>& x) {
  const std::vector<unsigned char> bytes = encode(dtype, x);
  DeviceBuffer buffer(bytes.size());
  if (!bytes.empty()) buffer.copy_from_host(bytes.data(), bytes.size());
  return buffer;
}

/// Rows of p.seqlen_k numbers as S and P lie in memory. What pads them is NaN, which no kernel may use.
std::vector<double> padded_rows(const Problem& p, const std::vector<double>& x) {
  const auto n = static_cast<std::size_t>(p.seqlen_k), pitch = static_cast<std::size_t>(score_pitch(p));
  std::vector<double> padded(x.size() / n * pitch, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t row = 0; row < x.size() / n; ++row)
    std::copy_n(x.data() + row * n, n, padded.data() + row * pitch);
  return padded;
}
std::vector<double> without_padding(const Problem& p, const std::vector<double>& padded) {
  const auto n = static_cast<std::size_t>(p.seqlen_k), pitch = static_cast<std::size_t>(score_pitch(p));
  std::vector<double> x(padded.size() / pitch * n);
  for (std::size_t row = 0; row < padded.size() / pitch; ++row)
    std::copy_n(padded.data() + row * pitch, n, x.data() + row * n);
  return x;
}

/// An output on the device, filled with NaN.
class Result {
 public:
  Result(Dtype dtype, std::int64_t elements)
      : dtype_(dtype),
        elements_(static_cast<std::size_t>(elements)),
        buffer_(elements_ * static_cast<std::size_t>(bytes_of(dtype))) {
    buffer_.fill_bytes(poison);
  }
  void* data() const { return buffer_.data(); }
  float* floats() const { return static_cast<float*>(buffer_.data()); }
  std::vector<double> values() const {
    std::vector<unsigned char> bytes(buffer_.bytes());
    if (!bytes.empty()) buffer_.copy_to_host(bytes.data(), bytes.size());
    return decode(dtype_, bytes, elements_);
  }

 private:
  Dtype dtype_;
  std::size_t elements_;
  DeviceBuffer buffer_;
};

/// Runs a pass and waits for it.
void run(const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass, Tensors x) {
  DeviceBuffer workspace(kernel.workspace_bytes(p, t, pass));
  workspace.fill_bytes(poison);
  x.workspace = workspace.data();
  kernel.launch(p, t, pass, x, nullptr);
  synchronize();
}

void check_softmax(const Kernel& kernel, const Tiling& t, const DeviceInputs& inputs,
                   const Reference& reference, KernelReport& report) {
  const Problem& p = inputs.problem();
  const Result result(p.dtype, score_elements(p));
  Tensors x = inputs.tensors();
  x.p = result.data();
  run(kernel, p, t, Pass::forward, x);
  // Each element: exp of a difference x - max of up to 2 max |x| (which is rounded, times log2(e) again; then
  // 2 + 1.173 |x| units in the last place, CUDA C++ Programming Guide, __expf), the sum of n of them, the
  // division, and the result's rounding.
  const double w = unit_roundoff(Dtype::fp32), u = unit_roundoff(p.dtype);
  const double range = 2 * reference.largest_score, exponential = 2 * (2 + 1.173 * range) * w + range * w;
  const ElementBound bound{std::expm1(2 * exponential + (p.seqlen_k + 8) * w + u),
                           smallest_positive(p.dtype) + std::ldexp(1.0, -125)};
  report.comparisons.push_back(
      compare("P", without_padding(p, result.values()), reference.softmax, reference.softmax, bound));
}

void check_attention(const Kernel& kernel, const Variant& variant, const DeviceInputs& inputs,
                     const Reference& reference, KernelReport& report) {
  const Problem& p = inputs.problem();
  const Result o(p.dtype, elements(p, p.heads_q, p.seqlen_q, p.head_dim));
  const std::int64_t rows = elements(p, p.heads_q, p.seqlen_q, 1);
  const Result lse(Dtype::fp32, rows), l(Dtype::fp32, rows), m(Dtype::fp32, rows);
  const std::int64_t scores = is_standard(kernel) ? score_elements(p) : 0;
  const Result s(p.dtype, scores), probabilities(p.dtype, scores);
  Tensors x = inputs.tensors();
  x.o = o.data(), x.l = l.floats(), x.m = m.floats();
  x.s = s.data(), x.p = probabilities.data();
  if (!is_standard(kernel)) x.lse = lse.floats();
  run(kernel, p, variant.forward, Pass::forward, x);

  const ResultSizes& sizes = reference.sizes;
  const ElementBounds forward = element_bounds(p, sizes, roundings_of(kernel, p, variant.forward));
  report.comparisons.push_back(compare("O", o.values(), reference.forward.o, sizes.o, forward.o));
  if (x.lse != nullptr)
    report.comparisons.push_back(
        compare("LSE", lse.values(), reference.forward.lse, {}, {0, forward.lse}, true));

  if (!kernel.fault(p, variant.backward, Pass::backward).empty()) return;
  const std::int64_t kv = elements(p, p.heads_kv, p.seqlen_k, p.head_dim);
  const Result dq(p.dtype, elements(p, p.heads_q, p.seqlen_q, p.head_dim)), dk(p.dtype, kv), dv(p.dtype, kv);
  x.dq = dq.data(), x.dk = dk.data(), x.dv = dv.data();
  run(kernel, p, variant.backward, Pass::backward, x);
  const ElementBounds backward = element_bounds(p, sizes, roundings_of(kernel, p, variant.backward));
  report.comparisons.push_back(compare("dQ", dq.values(), reference.backward.dq, sizes.dq, backward.dq));
  report.comparisons.push_back(compare("dK", dk.values(), reference.backward.dk, sizes.dk, backward.dk));
  report.comparisons.push_back(compare("dV", dv.values(), reference.backward.dv, sizes.dv, backward.dv));
}

}  // namespace

std::string full_name(const Kernel& kernel) {
  return kernel.variant.empty() ? kernel.name : kernel.name + "/" + kernel.variant;
}

std::vector<Variant> variants_of(const Kernel& kernel, const Problem& p, const ChosenOrder& order) {
  std::string name = full_name(kernel);
  if (order.given()) name += ", " + describe(order);
  Variant own{name, order.of(kernel.tiling(p, Pass::forward)), kernel.tiling(p, Pass::backward)};
  own.backward.order = order.order.value_or(own.backward.order);  // heads take turns forward only
  std::vector<Variant> all = {own};
  if (kernel.name == "fa1") {
    all.push_back(own);
    all.back().label = name + ", temporaries " + name_of(p.dtype);
    all.back().forward.temporaries = all.back().backward.temporaries = p.dtype;
  } else if (kernel.name == "fa2") {
    all.push_back(own);
    all.back().label = name + ", deterministic";
    all.back().backward.deterministic = true;
    if (!order.given()) all.back().forward.heads_together = 3;  // its forward pass has another order, too
  } else if (kernel.name == "fa3" && p.masked() && !order.given()) {
    all.push_back(own);
    all.back().label = name + ", other order";
    Tiling& t = all.back().forward;
    t.order = t.order == BlockOrder::first_to_last ? BlockOrder::last_to_first : BlockOrder::first_to_last;
    t.heads_together = 3;
  } else if (kernel.name == "decoding") {
    for (const int splits : {1, 3, 64}) {
      all.push_back(own);
      all.back().label = name + ", splits " + std::to_string(splits);
      all.back().forward.num_splits = splits;
    }
  }
  return all;
}

KernelRoundings roundings_of(const Kernel& kernel, const Problem& p, const Tiling& t) {
  KernelRoundings r;
  r.stores_scores = is_standard(kernel);
  const int tiles = is_standard(kernel) ? 1 : (p.seqlen_k + t.block_k - 1) / t.block_k;
  r.tiles = tiles + t.num_splits + t.warps;  // parts of splits and warps are merged by rescaling, too
  if (kernel.name == "fa1" && t.temporaries == p.dtype) r.output_visits = tiles;
  if (!is_standard(kernel)) r.flushed = 0x1p-126;  // exp2_approx of common/ptx.cuh; __expf does not flush
  if (kernel.name == "fa2") r.headroom = 0x1p8;    // rescale_threshold in fa2/forward_rows.cuh
  if (kernel.name == "fa2") r.rounds_p = fa2::rounds_p_before_ds(p);
  if (kernel.name == "fa3") r.headroom = 0x1p14;  // `fits` in fa3/softmax.cuh
  return r;
}

Comparison compare(const std::string& tensor, const std::vector<double>& got, const std::vector<double>& want,
                   const std::vector<double>& size, ElementBound bound, bool exact_infinity) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Comparison c;
  c.tensor = tensor;
  if (got.size() != want.size()) {
    c.worst = infinity;
    return c;
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double tolerance = bound.tolerance(size.empty() ? 0 : size[i]);
    double ratio;
    if (std::isfinite(want[i])) {
      if (!(tolerance >= 0 && std::isfinite(tolerance)) && c.bound_fault.empty())
        c.bound_fault = "a fault of the error bound, not of the kernel: " + tensor + "[" + std::to_string(i) +
                        "] = " + std::to_string(want[i]) + " may be off by " + std::to_string(tolerance) +
                        "; expected a finite tolerance (cpu_reference/componentwise.h)";
      ratio = std::abs(got[i] - want[i]) / tolerance;
      if (!(ratio <= std::numeric_limits<double>::max())) ratio = infinity;
    } else {
      const bool fits = exact_infinity && std::isinf(want[i]) ? got[i] == want[i] : !std::isfinite(got[i]);
      ratio = fits ? 0 : infinity;
    }
    if (i == 0 || ratio > c.worst) {
      c.worst = ratio, c.index = i;
      c.got = got[i], c.want = want[i], c.tolerance = tolerance;
    }
  }
  return c;
}

DeviceInputs::DeviceInputs(const Problem& p, const Inputs& x)
    : p_(p),
      q_(on_device(p.dtype, x.q)),
      k_(on_device(p.dtype, x.k)),
      v_(on_device(p.dtype, x.v)),
      d_o_(on_device(p.dtype, x.d_o)),
      s_(on_device(p.dtype, padded_rows(p, x.s))) {}

Tensors DeviceInputs::tensors() const {
  Tensors x;
  x.q = q_.data(), x.k = k_.data(), x.v = v_.data(), x.d_o = d_o_.data(), x.s = s_.data();
  return x;
}

bool KernelReport::passed() const {
  return error.empty() &&
         std::all_of(comparisons.begin(), comparisons.end(), [](const Comparison& c) { return c.passed(); });
}

KernelReport check_kernel(const Kernel& kernel, const Variant& variant, const DeviceInputs& inputs,
                          const Reference& reference) {
  KernelReport report;
  report.label = variant.label;
  if (!kernel.fault(inputs.problem(), variant.forward, Pass::forward).empty()) return report;
  try {
    if (is_softmax(kernel))
      check_softmax(kernel, variant.forward, inputs, reference, report);
    else
      check_attention(kernel, variant, inputs, reference, report);
  } catch (const std::runtime_error& error) {
    report.error = error.what();
  }
  for (const Comparison& c : report.comparisons)
    if (report.error.empty()) report.error = c.bound_fault;
  return report;
}

}  // namespace flashsim::gpu

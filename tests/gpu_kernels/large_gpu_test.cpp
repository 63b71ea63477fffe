// More than 2^31 elements in a tensor: every offset must be 64 bits wide. Only the last head (or the last
// keys) hold random numbers and are compared; the rest is one constant, so that nothing large passes the
// host.
#include <doctest/doctest.h>

#include <cmath>
#include <iostream>

#include "cpu_reference/score_layout.h"
#include "gpu_kernels/check/kernel_check.h"
#include "gpu_kernels/common/copy.h"

using namespace flashsim;
using namespace flashsim::gpu;

namespace {

constexpr int half_byte = 0x2c;  ///< 0x2c2c is 0.0652 in fp16

/// A tensor of `heads` heads whose last one holds `x`.
DeviceBuffer with_last_head(std::int64_t heads, const std::vector<double>& x) {
  const std::vector<unsigned char> last = encode(Dtype::fp16, x);
  DeviceBuffer buffer(static_cast<std::size_t>(heads) * last.size());
  buffer.fill_bytes(half_byte);
  copy_to_device(static_cast<char*>(buffer.data()) + buffer.bytes() - last.size(), last.data(), last.size());
  return buffer;
}

std::vector<double> last_head(const DeviceBuffer& buffer, std::size_t elements) {
  std::vector<unsigned char> bytes(2 * elements);
  copy_from_device(bytes.data(), static_cast<const char*>(buffer.data()) + buffer.bytes() - bytes.size(),
                   bytes.size());
  return decode(Dtype::fp16, bytes, elements);
}

bool fits(std::size_t bytes) {
  const bool fits = static_cast<std::int64_t>(bytes) < device_info().memory_bytes / 10 * 9;
  if (!fits) std::cout << "left out: " << (bytes >> 30) << " GiB of device memory are needed\n";
  return fits;
}

/// All passes of a kernel on `batch` entries of the one-head problem `one`; the last entry is compared.
void check_last_entry(const char* name, const Case& one, int batch) {
  CAPTURE(name);
  const Kernel* const kernel = find_kernel(name);
  REQUIRE(kernel != nullptr);
  Problem p = one.problem;
  p.batch = batch;
  const Inputs x = inputs_of(one);
  const Reference reference = reference_of(one.problem, x);
  const bool standard = kernel->name == "standard";
  const std::size_t scores = standard ? static_cast<std::size_t>(score_elements(p)) * 2 : 0;
  const Tiling forward = kernel->tiling(p, Pass::forward), backward = kernel->tiling(p, Pass::backward);
  REQUIRE(kernel->fault(p, forward, Pass::forward).empty());
  const bool has_backward = kernel->fault(p, backward, Pass::backward).empty();
  const std::size_t workspace_bytes =
      std::max(kernel->workspace_bytes(p, forward, Pass::forward),
               has_backward ? kernel->workspace_bytes(p, backward, Pass::backward) : 0);
  const auto heads = std::int64_t{batch};
  if (!fits(static_cast<std::size_t>(heads) * (4 * x.q.size() + 4 * x.k.size()) * 2 + 2 * scores +
            workspace_bytes))
    return;
  const DeviceBuffer q = with_last_head(heads, x.q), k = with_last_head(heads, x.k),
                     v = with_last_head(heads, x.v), d_o = with_last_head(heads, x.d_o);
  DeviceBuffer o(q.bytes()), s(scores), probabilities(scores), workspace(workspace_bytes);
  const auto rows = static_cast<std::size_t>(elements(p, p.heads_q, p.seqlen_q, 1)) * 4;
  DeviceBuffer lse(rows), l(rows), m(rows);
  for (DeviceBuffer* b : {&o, &s, &probabilities, &workspace, &lse, &l, &m}) b->fill_bytes(0xff);
  Tensors t;
  t.q = q.data(), t.k = k.data(), t.v = v.data(), t.o = o.data(), t.s = s.data(), t.p = probabilities.data();
  t.lse = static_cast<float*>(lse.data()), t.l = static_cast<float*>(l.data()),
  t.m = static_cast<float*>(m.data());
  t.workspace = workspace.data();
  if (standard) t.lse = nullptr;
  kernel->launch(p, forward, Pass::forward, t, nullptr);
  synchronize();
  const ResultSizes& sizes = reference.sizes;
  const ElementBounds bounds = element_bounds(one.problem, sizes, roundings_of(*kernel, p, forward));
  const Comparison c = compare("O", last_head(o, x.q.size()), reference.forward.o, sizes.o, bounds.o);
  INFO("O[", c.index, "] is ", c.got, ", expected ", c.want, " +- ", c.tolerance);
  CHECK(c.passed());
  if (!has_backward) return;
  DeviceBuffer dq(q.bytes()), dk(k.bytes()), dv(k.bytes());
  for (DeviceBuffer* b : {&dq, &dk, &dv, &workspace}) b->fill_bytes(0xff);
  t.d_o = d_o.data(), t.dq = dq.data(), t.dk = dk.data(), t.dv = dv.data();
  kernel->launch(p, backward, Pass::backward, t, nullptr);
  synchronize();
  const ElementBounds b = element_bounds(one.problem, sizes, roundings_of(*kernel, p, backward));
  CHECK(compare("dQ", last_head(dq, x.q.size()), reference.backward.dq, sizes.dq, b.dq).passed());
  CHECK(compare("dK", last_head(dk, x.k.size()), reference.backward.dk, sizes.dk, b.dk).passed());
  CHECK(compare("dV", last_head(dv, x.k.size()), reference.backward.dv, sizes.dv, b.dv).passed());
}

Case one_head(int seqlen_q, int seqlen_k, int head_dim) {
  Case c;
  c.problem.seqlen_q = seqlen_q, c.problem.seqlen_k = seqlen_k, c.problem.head_dim = head_dim;
  return c;
}

}  // namespace

TEST_CASE("batch * heads * n * d beyond 2^31") {
  // 2^16 elements a head and 2^15 + 1 heads.
  const Case one = one_head(512, 512, 128);
  for (const char* name : {"fa1", "fa2", "fa3"}) {
    const Kernel* const kernel = find_kernel(name);
    if (kernel != nullptr &&
        kernel->fault(one.problem, kernel->tiling(one.problem, Pass::forward), Pass::forward).empty())
      check_last_entry(name, one, (1 << 15) + 1);
  }
}

TEST_CASE("n_q * n_k beyond 2^31 over all heads") {
  // 2^18 scores a head and 2^13 + 1 heads.
  check_last_entry("standard", one_head(512, 512, 64), (1 << 13) + 1);
}

TEST_CASE("keys and values beyond 2^31, in many heads and in one") {
  check_last_entry("decoding", one_head(1, 4096, 128), (1 << 12) + 1);
  // One head of 2^24 + 64 keys, all zero with values zero but for the last 64 keys.
  const Kernel* const decoding = find_kernel("decoding");
  REQUIRE(decoding != nullptr);
  const Case tail = one_head(1, 64, 128);
  const Inputs x = inputs_of(tail);
  Problem p = tail.problem;
  p.seqlen_k = (1 << 24) + 64;
  const Tiling t = decoding->tiling(p, Pass::forward);
  REQUIRE(decoding->fault(p, t, Pass::forward).empty());
  const std::size_t bytes = static_cast<std::size_t>(elements(p, 1, p.seqlen_k, 128)) * 2;
  if (!fits(2 * bytes)) return;
  DeviceBuffer q(256), k(bytes), v(bytes), o(256), lse(4),
      workspace(decoding->workspace_bytes(p, t, Pass::forward));
  k.fill_bytes(0), v.fill_bytes(0), o.fill_bytes(0xff), lse.fill_bytes(0xff), workspace.fill_bytes(0xff);
  const auto put = [](const DeviceBuffer& target, const std::vector<double>& values) {
    const std::vector<unsigned char> last = encode(Dtype::fp16, values);
    copy_to_device(static_cast<char*>(target.data()) + target.bytes() - last.size(), last.data(),
                   last.size());
  };
  // Queries eight times as long: the last keys then weigh enough to be seen beside 2^24 zero scores.
  std::vector<double> long_q = x.q;
  for (double& e : long_q) e *= 8;
  put(q, long_q), put(k, x.k), put(v, x.v);
  Tensors tensors;
  tensors.q = q.data(), tensors.k = k.data(), tensors.v = v.data(), tensors.o = o.data();
  tensors.lse = static_cast<float*>(lse.data()), tensors.workspace = workspace.data();
  decoding->launch(p, t, Pass::forward, tensors, nullptr);
  synchronize();
  double sum = 1 << 24;
  std::vector<double> want(128, 0);
  for (int j = 0; j < 64; ++j) {
    double s = 0;
    for (int c = 0; c < 128; ++c)
      s += long_q[static_cast<std::size_t>(c)] * x.k[static_cast<std::size_t>(j * 128 + c)];
    const double weight = std::exp(s * scale_of(p));
    sum += weight;
    for (int c = 0; c < 128; ++c)
      want[static_cast<std::size_t>(c)] += weight * x.v[static_cast<std::size_t>(j * 128 + c)];
  }
  std::vector<double> size(128, 5);  // above the largest value
  for (double& e : want) e /= sum;
  CHECK(compare("O", last_head(o, 128), want, size, {0x1p-9, 0}).passed());
  float got_lse = 0;
  lse.copy_to_host(&got_lse, 4);
  CHECK(std::abs(got_lse - std::log(sum)) <= 1e-4);
  CHECK(sum > (1 << 24) * 1.001);  // the last keys count
}

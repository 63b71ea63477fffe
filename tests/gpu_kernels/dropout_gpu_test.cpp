// The dropout mask, bit for bit: with Q = 0 every P is 1 / n, and with V a slice of the identity matrix O
// shows which elements of P were kept. The backward pass shows its own mask in dV, with dO a slice of the
// identity.
#include <doctest/doctest.h>

#include <cmath>

#include "cpu_reference/philox.h"
#include "gpu_kernels/check/kernel_check.h"

using namespace flashsim;
using namespace flashsim::gpu;

namespace {

struct Results {
  std::vector<double> o, dv;
};

Results run(const Kernel& kernel, const Problem& p, const Inputs& inputs) {
  const DeviceInputs device(p, inputs);
  const auto bytes = [&p](int heads, int rows, int cols, int each) {
    return static_cast<std::size_t>(elements(p, heads, rows, cols)) * static_cast<std::size_t>(each);
  };
  const std::size_t q = bytes(p.heads_q, p.seqlen_q, p.head_dim, 2),
                    k = bytes(p.heads_kv, p.seqlen_k, p.head_dim, 2);
  const std::size_t rows = bytes(p.heads_q, p.seqlen_q, 1, 4);
  DeviceBuffer o(q), dq(q), dk(k), dv(k), lse(rows), l(rows), m(rows);
  Tensors x = device.tensors();
  x.o = o.data(), x.dq = dq.data(), x.dk = dk.data(), x.dv = dv.data();
  x.lse = static_cast<float*>(lse.data()), x.l = static_cast<float*>(l.data()),
  x.m = static_cast<float*>(m.data());
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const Tiling t = kernel.tiling(p, pass);
    const DeviceBuffer workspace(kernel.workspace_bytes(p, t, pass));
    x.workspace = workspace.data();
    kernel.launch(p, t, pass, x, nullptr);
    synchronize();
  }
  std::vector<unsigned char> o_bytes(q), dv_bytes(k);
  o.copy_to_host(o_bytes.data(), q);
  dv.copy_to_host(dv_bytes.data(), k);
  return {decode(p.dtype, o_bytes, q / 2), decode(p.dtype, dv_bytes, k / 2)};
}

}  // namespace

TEST_CASE("fa1 and fa2 drop exactly the elements that the CPU drops, forward and backward") {
  for (const char* name : {"fa1", "fa2"})
    for (const int d : {64, 128, 256})
      for (const Dtype dtype : {Dtype::fp16, Dtype::bf16}) {
        CAPTURE(name);
        CAPTURE(d);
        Problem p;
        p.batch = 2, p.heads_q = 4, p.heads_kv = 2, p.seqlen_q = 300, p.seqlen_k = 400, p.head_dim = d;
        p.dtype = dtype, p.dropout_p = 0.3F, p.dropout_seed = 0xfeedbeef12345678;
        const std::uint32_t threshold = dropout_threshold(p.dropout_p);
        const Kernel* const kernel = find_kernel(name);
        REQUIRE(kernel != nullptr);
        // The d keys, and the d queries, that the slices of the identity show.
        for (const int first : {0, 144}) {
          Inputs x;
          x.q.assign(static_cast<std::size_t>(elements(p, p.heads_q, p.seqlen_q, d)), 0);
          x.d_o = x.q;
          x.k.assign(static_cast<std::size_t>(elements(p, p.heads_kv, p.seqlen_k, d)), 1);
          x.v.assign(x.k.size(), 0);
          const auto at = [d](int head, int rows, int row, int col) {
            return static_cast<std::size_t>((std::int64_t{head} * rows + row) * d + col);
          };
          for (int kv = 0; kv < p.batch * p.heads_kv; ++kv)
            for (int c = 0; c < d && first + c < p.seqlen_k; ++c) x.v[at(kv, p.seqlen_k, first + c, c)] = 1;
          // One head of each group alone has a gradient, so that dV shows one mask.
          for (int head = 0; head < p.batch * p.heads_q; head += p.group())
            for (int c = 0; c < d && first + c < p.seqlen_q; ++c)
              x.d_o[at(head, p.seqlen_q, first + c, c)] = 1;
          const Results r = run(*kernel, p, x);
          const double kept = 1 / (1 - double{p.dropout_p}) / p.seqlen_k;
          int wrong = 0, dropped = 0;
          for (int head = 0; head < p.batch * p.heads_q; ++head)
            for (int i = 0; i < p.seqlen_q; ++i)
              for (int c = 0; c < d && first + c < p.seqlen_k; ++c) {
                const bool keeps =
                    dropout_keeps(p.dropout_seed, threshold, static_cast<std::uint32_t>(head),
                                  static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(first + c));
                const double value = r.o[at(head, p.seqlen_q, i, c)];
                wrong += keeps ? !(std::abs(value - kept) <= 0.01 * kept) : !(value == 0);
                dropped += !keeps;
              }
          CHECK(dropped > 1000);
          CHECK(wrong == 0);
          wrong = 0;
          for (int head = 0; head < p.batch * p.heads_q; head += p.group())
            for (int j = 0; j < p.seqlen_k; ++j)
              for (int c = 0; c < d && first + c < p.seqlen_q; ++c) {
                const bool keeps =
                    dropout_keeps(p.dropout_seed, threshold, static_cast<std::uint32_t>(head),
                                  static_cast<std::uint32_t>(first + c), static_cast<std::uint32_t>(j));
                const double value = r.dv[at(head / p.group(), p.seqlen_k, j, c)];
                wrong += keeps ? !(std::abs(value - kept) <= 0.01 * kept) : !(value == 0);
              }
          CHECK(wrong == 0);
        }
      }
}

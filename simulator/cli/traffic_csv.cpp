// The numbers of flashsim traffic's tables as CSV.
#include "simulator/cli/traffic_options.h"
#include "simulator/report/svg.h"

namespace flashsim::cli {
namespace {

/// A kernel, or all of them: the sum over its tensors first, then each tensor.
void add(std::string& csv, const PassReport& r, const std::string& kernel, const KernelTraffic& k) {
  const auto line = [&](const std::string& tensor, const TensorTraffic& t, bool whole) {
    const auto number = [](std::int64_t x) { return std::to_string(x); };
    const auto of_kernel = [&](std::int64_t x) { return whole ? number(x) : std::string(); };
    csv += csv_line({r.algorithm, name_of(r.pass), kernel, tensor, number(t.read.bytes),
                     number(t.written.bytes), number(t.reduced.bytes), number(t.elements()),
                     of_kernel(k.blocks), of_kernel(k.matmul_flops), of_kernel(k.exps),
                     of_kernel(k.other_flops), of_kernel(k.sram_filled), of_kernel(k.sram_fetched)});
  };
  line("all", k.total(), true);
  for (int i = 0; i < tensor_count; ++i)
    if (const auto x = static_cast<Tensor>(i); k.of(x).bytes() > 0)
      line(std::string(name_of(x)), k.of(x), false);
}

}  // namespace

std::string csv_of(const std::vector<PassReport>& reports) {
  std::string csv = csv_line({"algorithm", "pass", "kernel", "tensor", "read_bytes", "written_bytes",
                              "reduced_bytes", "accesses", "thread_blocks", "matmul_flops", "exps",
                              "other_flops", "sram_filled_bytes", "sram_fetched_bytes"});
  for (const PassReport& r : reports) {
    add(csv, r, "all", r.total);
    for (const KernelReport& k : r.kernels) add(csv, r, k.traffic.name, k.traffic);
  }
  return csv;
}

}  // namespace flashsim::cli

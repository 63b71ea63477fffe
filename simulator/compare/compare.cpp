#include "simulator/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "simulator/compare/settled.h"
#include "simulator/executors/traffic.h"

namespace flashsim {
namespace {

struct Number {
  Level level;
  ByteDirection direction;
  double L2Traffic::*simulated;
  double Observed::*measured;
};
constexpr Number numbers[] = {
    {Level::requested, ByteDirection::read, &L2Traffic::requested_read, &Observed::requested_read},
    {Level::requested, ByteDirection::written, &L2Traffic::requested_written, &Observed::requested_written},
    {Level::dram, ByteDirection::read, &L2Traffic::dram_read, &Observed::dram_read},
    {Level::dram, ByteDirection::written, &L2Traffic::dram_written, &Observed::dram_written},
};

void add_rows(std::vector<CompareRow>& rows, const std::string& kernel,
              const std::array<L2Traffic, tensor_count>& tensors, const L2Traffic& total,
              const Observed* measured) {
  for (const Number& n : numbers)
    for (int x = 0; x < tensor_count; ++x)
      if (const double value = tensors[x].*n.simulated; value > 0)
        rows.push_back({kernel, std::string(name_of(static_cast<Tensor>(x))), n.level, n.direction, value});
  for (const Number& n : numbers) {
    CompareRow row{kernel, "all", n.level, n.direction, total.*n.simulated};
    if (measured != nullptr) row.measured = measured->*n.measured;
    rows.push_back(std::move(row));
  }
}

bool beyond(double simulated, double measured, double share) {
  return !(std::fabs(simulated - measured) <= std::max(share * measured, 64.0 * 1024));
}

/// Inputs read once and outputs written once, with the row statistics that the passes hand on.
double compulsory_bytes(const KernelCase& c) {
  const Problem& p = c.problem;
  if (c.kernel == "softmax")
    return 2.0 * bytes_of(p.dtype) * static_cast<double>(elements(p, p.heads_q, p.seqlen_q, p.seqlen_k));
  const double q = static_cast<double>(elements(p, p.heads_q, p.seqlen_q, p.head_dim)),
               k = static_cast<double>(elements(p, p.heads_kv, p.seqlen_k, p.head_dim)),
               e = bytes_of(p.dtype);
  return c.backward ? e * (4 * q + 4 * k) : e * (2 * q + 2 * k);
}

void fill(DramBar& bar, std::vector<std::pair<double, std::string>> errors) {
  bar.cases = static_cast<int>(errors.size());
  if (errors.empty()) return;
  // A NaN is worse than anything.
  std::sort(errors.begin(), errors.end(), [](const auto& a, const auto& b) {
    return std::isnan(b.first) ? !std::isnan(a.first) : a.first < b.first;
  });
  const auto at = [&](double share) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(errors.size())));
    return errors[std::max<std::size_t>(rank, 1) - 1].first;
  };
  bar.median = at(0.5);
  bar.percentile_95 = at(0.95);
  bar.worst = errors.back().first;
  bar.worst_case = errors.back().second;
}

}  // namespace

const char* name_of(Level level) { return level == Level::requested ? "requested" : "DRAM"; }
const char* name_of(ByteDirection direction) { return direction == ByteDirection::read ? "read" : "written"; }

Schedule schedule_of(const KernelCase& c) {
  // Products of a vendor's library are cut in ways of its own.
  if (!c.variant.empty() && c.kernel == "standard") return nullptr;
  if (c.kernel == "softmax")
    return c.backward              ? nullptr
           : c.variant == "safe"   ? softmax_safe
           : c.variant == "online" ? softmax_online
                                   : nullptr;
  const Algorithm* a = find_algorithm(c.kernel);
  return a == nullptr ? nullptr : c.backward ? a->backward : a->forward;
}

ByteComparison compare(const Record& record, const L2Options& options, int seeds, int most_seeds) {
  const Schedule schedule = schedule_of(record.what);
  if (schedule == nullptr)
    throw std::invalid_argument(
        "no schedule describes " + record.what.kernel +
        (record.what.variant.empty() ? "" : "/" + record.what.variant) +
        (record.what.backward ? " backward" : "") +
        "; those of standard, softmax/safe, softmax/online, fa1, fa2, fa3 and decoding can be "
        "compared");
  ByteComparison c;
  c.record = record;
  c.simulated =
      simulate_l2_range(schedule, record.what.problem, record.tiling, options, seeds, most_seeds, settled);
  for (const KernelTraffic& k : count_traffic(schedule, record.what.problem, record.tiling))
    c.flops += static_cast<double>(k.matmul_flops);
  c.compulsory = compulsory_bytes(record.what);
  const L2Result& median = c.simulated.median;
  if (median.kernels.size() > 1)
    for (const L2Kernel& k : median.kernels) add_rows(c.rows, k.name, k.tensors, k.total(), nullptr);
  add_rows(c.rows, "all", median.tensors, median.total(), &c.record.observed);
  return c;
}

double ByteComparison::dram_error() const { return total().dram() / record.observed.dram() - 1; }

std::string ByteComparison::requested_fault() const {
  const auto fault = [](const char* what, double expected, double measured, const char* allowed) {
    return std::string("requested ") + what + ": simulated " + std::to_string(std::llround(expected)) +
           " bytes, measured " + (std::isfinite(measured) ? std::to_string(std::llround(measured)) : "none") +
           ", allowed is " + allowed;
  };
  const L2Traffic t = total();
  const Observed& o = record.observed;
  if (beyond(t.requested_read, o.requested_read, 0.002))
    return fault("reads", t.requested_read, o.requested_read, "0.2 % or 64 KiB");
  if (beyond(t.requested_written, o.requested_written, 0.005))
    return fault("writes", t.requested_written, o.requested_written, "0.5 % or 64 KiB");
  return {};
}

bool DramBar::met() const {
  return cases == 0 || (median <= median_bar && percentile_95 <= percentile_95_bar && worst <= worst_bar);
}

Summary summarise(const std::vector<ByteComparison>& comparisons) {
  Summary s;
  s.up_to_32k.to = 32768;
  s.up_to_32k.median_bar = 0.02, s.up_to_32k.percentile_95_bar = 0.06, s.up_to_32k.worst_bar = 0.12;
  s.from_64k.from = 65536, s.from_64k.to = std::numeric_limits<int>::max();
  s.from_64k.median_bar = 0.08, s.from_64k.percentile_95_bar = 0.25, s.from_64k.worst_bar = 1;
  std::vector<std::pair<double, std::string>> shorter, longer;
  for (const ByteComparison& c : comparisons) {
    ++s.cases;
    const std::string fault = c.requested_fault();
    if (!fault.empty()) s.requested_faults.push_back(describe(c.record.what) + ": " + fault);
    if (disturbed(c.record.observed)) {
      s.disturbed.push_back(describe(c.record.what));
      continue;
    }
    const double simulated = c.total().dram(), measured = c.record.observed.dram();
    double error = std::max(simulated / measured, measured / simulated) - 1;
    if (c.compulsory < 64e6 && std::fabs(simulated - measured) <= 2e6) error = 0;
    const int n = std::max(c.record.what.problem.seqlen_q, c.record.what.problem.seqlen_k);
    (n <= s.up_to_32k.to ? shorter : longer).emplace_back(error, describe(c.record.what));
  }
  fill(s.up_to_32k, std::move(shorter));
  fill(s.from_64k, std::move(longer));
  return s;
}

}  // namespace flashsim

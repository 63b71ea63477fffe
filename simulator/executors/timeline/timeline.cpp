#include "simulator/executors/timeline/timeline.h"

#include <algorithm>
#include <numeric>

#include "simulator/executors/hazard.h"
#include "simulator/executors/timeline/sm.h"

namespace flashsim::timeline {

const char* name_of(Unit u) {
  switch (u) {
    case Unit::tensor_cores: return "tensor cores";
    case Unit::exponentials: return "exp unit";
    case Unit::cuda_cores: return "CUDA cores";
    case Unit::copies: return "copies";
    case Unit::count: break;
  }
  return "";
}

SmRates sm_rates(const Gpu& gpu, Dtype operands, Source source) {
  const double clocks = gpu.clock_hz * gpu.sm_count;
  const bool from_l2 = source == Source::l2 && gpu.l2_bytes_per_s > 0;
  SmRates r;
  r.clock_hz = gpu.clock_hz;
  const auto set = [&](Unit u, double per_clock) { r.per_clock[static_cast<std::size_t>(u)] = per_clock; };
  set(Unit::tensor_cores, gpu.matmul_flops(operands) / clocks);
  set(Unit::exponentials, gpu.exp_per_clock_per_sm);
  set(Unit::cuda_cores, gpu.fp32_flops / 2 / clocks);  // data sheets count a fused multiply-add as two
  set(Unit::copies, (from_l2 ? gpu.l2_bytes_per_s : gpu.hbm_bytes_per_s) / clocks);
  return r;
}

double KernelTimeline::serial() const { return std::accumulate(busy.begin(), busy.end(), 0.0); }
double KernelTimeline::bound() const { return *std::max_element(busy.begin(), busy.end()); }
Unit KernelTimeline::busiest() const {
  return static_cast<Unit>(std::max_element(busy.begin(), busy.end()) - busy.begin());
}

std::vector<KernelTimeline> run(const Program& program, const Problem& p, const Request& request) {
  StreamRecorder recorder(p, request);
  Hazard hazard(recorder);
  program(hazard, Heads::one);
  const std::vector<KernelStreams> kernels = recorder.take();
  std::vector<KernelTimeline> all;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    all.push_back(replay(kernels[k], request, resident_of(request, k)));
    all.back().grid = kernels[k].blocks_per_head * p.batch * p.heads_kv;
  }
  return all;
}

}  // namespace flashsim::timeline

#include "lessons/grader/graded_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cpu_reference/random.h"
#include "lessons/grader/statistics.h"
#include "simulator/executors/hazard.h"
#include "simulator/executors/sram.h"
#include "simulator/executors/work.h"
#include "simulator/user_schedule/user_schedule.h"
#include "simulator/user_schedule/wire.h"

namespace flashsim::lessons {
namespace {

std::vector<double> random(const Case& c, std::uint32_t id, int heads, int rows) {
  return random_tensor(Distribution::normal, c.seed, id,
                       static_cast<std::size_t>(elements(c.p, heads, rows, c.p.head_dim)));
}

/// Hands every event to several executors, in order.
class Tee final : public Executor {
 public:
  explicit Tee(std::vector<Executor*> to) : to_(std::move(to)) {}
  void begin_kernel(const Launch& l) override {
    for (Executor* e : to_) e->begin_kernel(l);
  }
  void begin_block(const ThreadBlock& b) override {
    for (Executor* e : to_) e->begin_block(b);
  }
  void execute(const Operation& o) override {
    for (Executor* e : to_) e->execute(o);
  }
  void allocate_ring(const TileRef& shape, int stages) override {
    for (Executor* e : to_) e->allocate_ring(shape, stages);
  }
  void release(const TileRef& t, int role) noexcept override {
    for (Executor* e : to_) e->release(t, role);
  }
  void end_block() override {
    for (Executor* e : to_) e->end_block();
  }
  void end_kernel() override {
    for (Executor* e : to_) e->end_kernel();
  }

 private:
  std::vector<Executor*> to_;
};

/// How the work of the largest kernel is spread over its thread blocks; blocks without any do not count.
class Sharing final : public Executor {
 public:
  void begin_kernel(const Launch&) override { all_ = busiest_ = 0; }
  void begin_block(const ThreadBlock&) override { block_ = 0; }
  void execute(const Operation& o) override { block_ += work_of(o).matmul_flops; }
  void end_block() override {
    all_ += block_;
    busiest_ = std::max(busiest_, block_);
  }
  void end_kernel() override {
    if (all_ <= most_) return;
    most_ = all_;
    sharing_ = static_cast<double>(all_) / static_cast<double>(busiest_);
  }
  double sharing() const { return sharing_; }

 private:
  std::int64_t block_ = 0, all_ = 0, busiest_ = 0, most_ = 0;
  double sharing_ = 0;
};

template <class Real>
void execute(const Program& program, const Case& c, const Truth& truth, const Allowance& allowed, Run& run) {
  const Tolerance tolerance = tolerance_of(c.p, truth.magnitudes, c.roundings);
  Memory<Real> memory(c.p, c.t);
  std::array<bool, tensor_count> read_only{};
  const auto give = [&](Tensor x, const std::vector<double>& values) {
    memory.set(x, values.data());
    read_only[static_cast<int>(x)] = true;
  };
  give(Tensor::Q, truth.q);
  give(Tensor::K, truth.k);
  give(Tensor::V, truth.v);
  if (c.backward) {
    give(Tensor::dO, truth.d_o);
    Numeric<Real> forward(c.p, memory);
    program_of(fa2_forward, c.p, c.t)(forward, Heads::all);  // leaves O and LSE as the forward pass would
    read_only[static_cast<int>(Tensor::O)] = read_only[static_cast<int>(Tensor::LSE)] = true;
  }
  Numeric<Real> numeric(c.p, memory);
  Statistics<Real> statistics(c.p, truth.q, truth.k, tolerance, numeric);
  Traffic traffic(c.p, c.t);
  Sram sram(c.p, Placement::paper, std::numeric_limits<std::int64_t>::max());
  Sharing sharing;
  Tee all({&sram, &traffic, &numeric, &statistics, &sharing});
  Hazard hazard(all);
  Guard guard(hazard, allowed, read_only);
  program(guard, Heads::all);

  run.kernels = traffic.kernels();
  run.traffic = sum(run.kernels);
  run.peak_sram = sram.peak_sram();
  run.sharing = sharing.sharing();
  run.statistics_compared = statistics.compared();
  run.statistics_fault = statistics.fault();
  const auto result = [&](Tensor x, const std::vector<double>& expected, double allowed_error) {
    try {
      run.outputs.push_back(memory.get(x));
    } catch (const MemoryError&) {
      throw RuleError(std::string(name_of(x)) + " is never stored");
    }
    run.results.push_back(compare(x, run.outputs.back(), expected, allowed_error));
  };
  if (c.backward) {
    result(Tensor::dQ, truth.backward.dq, tolerance.dq);
    result(Tensor::dK, truth.backward.dk, tolerance.dk);
    result(Tensor::dV, truth.backward.dv, tolerance.dv);
  } else {
    result(Tensor::O, truth.forward.o, tolerance.o);
    if (c.lse) result(Tensor::LSE, truth.forward.lse, tolerance.lse);
  }
}

}  // namespace

Truth truth_of(const Case& c) {
  const Problem& p = c.p;
  std::vector<double> q = random(c, tensor_id::q, p.heads_q, p.seqlen_q);
  std::vector<double> k = random(c, tensor_id::k, p.heads_kv, p.seqlen_k);
  std::vector<double> v = random(c, tensor_id::v, p.heads_kv, p.seqlen_k), d_o;
  if (c.backward) d_o = random(c, tensor_id::d_o, p.heads_q, p.seqlen_q);
  const std::size_t d = static_cast<std::size_t>(p.head_dim);
  if (c.values == Values::large_logits)
    for (double& e : q) e *= 150;
  if (c.values == Values::growing_maxima) {
    // One direction that every query likes, and every key a little more than the one before it.
    for (double& e : q) e = 0.3 * e + 1;
    for (std::size_t i = 0; i < k.size(); ++i)
      k[i] = 0.3 * k[i] + 0.1 * static_cast<double>(i / d % static_cast<std::size_t>(p.seqlen_k));
  }
  if (c.values == Values::constant_rows) {
    const std::size_t head = d * static_cast<std::size_t>(p.seqlen_k);
    for (std::size_t i = 0; i < k.size(); ++i) k[i] = k[i / head * head + i % d];
  }
  return flashsim::truth_of(p, std::move(q), std::move(k), std::move(v), std::move(d_o));
}

bool Run::right() const {
  return fault.empty() && !results.empty() &&
         std::all_of(results.begin(), results.end(), [](const Comparison& c) { return c.ok(); });
}

Run run_case(const Program& program, const Case& c, const Truth& truth, const Allowance& allowed) {
  Run run;
  try {
    if (c.p.dtype == Dtype::fp64)
      execute<double>(program, c, truth, allowed, run);
    else
      execute<float>(program, c, truth, allowed, run);
  } catch (const UserScheduleError& e) {
    run.fault = e.what();
    run.process_failed = true;
  } catch (const std::bad_alloc&) {
    run.fault = "the grader ran out of memory for what the schedule asked";
  } catch (const std::exception& e) {  // ScheduleError, MemoryError, RuleError
    run.fault = e.what();
  }
  return run;
}

Allowance allowance_for(const Run& reference) {
  Allowance a;
  const KernelTraffic& t = reference.traffic;
  a.work = 50 * (t.matmul_flops + t.other_flops + t.total().elements()) + 1'000'000;
  a.live_elements = 16 * reference.peak_sram + 4096;
  a.thread_blocks = 100 * t.blocks + 1000;
  return a;
}

Run run_reference(Schedule schedule, const Case& c, const Truth& truth) {
  Allowance all;
  all.work = all.live_elements = all.launches = all.thread_blocks = std::numeric_limits<std::int64_t>::max();
  all.parts = std::numeric_limits<int>::max();
  return run_case(program_of(schedule, c.p, c.t), c, truth, all);
}

}  // namespace flashsim::lessons

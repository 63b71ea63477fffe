// How fast the simulator counts and computes. The numeric executor is measured against Eigen's full-size
// products of the same FLOPs, in turn with them, so that both see the same machine.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "cpu_reference/random.h"
#include "cpu_reference/rounding.h"
#include "simulator/executors/numeric.h"
#include "simulator/executors/sram.h"
#include "simulator/executors/traffic.h"

using namespace flashsim;

namespace {

Problem one_head(int n, int d, Dtype dtype) {
  Problem p;
  p.seqlen_q = p.seqlen_k = n;
  p.head_dim = d;
  p.dtype = dtype;
  return p;
}

/// Traffic of one head of FA2 forward: time grows with the number of tiles, memory does not.
void traffic(benchmark::State& state) {
  const Problem p = one_head(static_cast<int>(state.range(0)), 128, Dtype::fp16);
  Tiling t;
  t.block_q = t.block_k = 128;
  for (auto _ : state) benchmark::DoNotOptimize(count_traffic(fa2_forward, p, t));
  state.counters["requested_GB"] =
      static_cast<double>(sum(count_traffic(fa2_forward, p, t)).requested_bytes()) * 1e-9;
}
BENCHMARK(traffic)->Arg(32768)->Arg(65536)->Arg(131072)->Unit(benchmark::kMillisecond);

/// Processor time of this thread: a machine that is busy with other things does not change it much.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double seconds_of(const std::function<void()>& run) {
  const double start = thread_seconds();
  run();
  return thread_seconds() - start;
}

/// FA2 forward in numbers: rate over the rate of Q K^T and P V as two full-size Eigen products, medians of
/// one run.
void numeric_over_products(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0)), d = static_cast<int>(state.range(1));
  const auto dtype = static_cast<Dtype>(state.range(2));
  const Problem p = one_head(n, d, dtype);
  const Tiling t;
  Memory<float> memory(p, t);
  using enum Tensor;
  for (const auto& [x, id] : {std::pair{Q, tensor_id::q}, {K, tensor_id::k}, {V, tensor_id::v}}) {
    std::vector<float> values(static_cast<std::size_t>(n) * d);
    fill_random(Distribution::normal, 1, id, 0, values.data(), values.size());
    round_to(dtype, values.data(), values.size());
    memory.set(x, values.data());
  }
  Memory<float>::Matrix s(n, n), o(n, d);
  const auto &q = memory.at_for_load(Q, 0, 0), &k = memory.at_for_load(K, 0, 0),
             &v = memory.at_for_load(V, 0, 0);
  std::vector<double> schedule, products;
  for (auto _ : state) {
    products.push_back(seconds_of([&] {
      s.noalias() = q * k.transpose();
      o.noalias() = s * v;
      benchmark::DoNotOptimize(o.data());
    }));
    schedule.push_back(seconds_of([&] {
      Numeric<float> numeric(p, memory);
      SerialDevice gpu(p, numeric);
      fa2_forward(gpu, p, t);
    }));
  }
  const auto median = [](std::vector<double>& x) {
    std::nth_element(x.begin(), x.begin() + x.size() / 2, x.end());
    return x[x.size() / 2];
  };
  const double gflop = 4.0 * n * n * d * 1e-9, a = median(schedule), b = median(products);
  state.counters["schedule_GFLOPs"] = gflop / a;
  state.counters["products_GFLOPs"] = gflop / b;
  state.counters["ratio"] = b / a;
}
BENCHMARK(numeric_over_products)
    ->Args({4096, 64, static_cast<int>(Dtype::fp32)})
    ->Args({4096, 64, static_cast<int>(Dtype::fp16)})
    ->Args({4096, 64, static_cast<int>(Dtype::bf16)})
    ->ArgNames({"n", "d", "dtype"})
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

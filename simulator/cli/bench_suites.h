// The lists of problems that flashsim bench knows by name.
#pragma once

#include <string>
#include <vector>

#include "cpu_reference/problem.h"
#include "simulator/cli/bench_run.h"

namespace flashsim::cli {

struct Suite {
  std::string name, title;
  std::vector<std::string> kernels;  ///< names; empty: all but softmax and decoding
  std::vector<Problem> problems;
};

/// flash: 16k tokens, heads times head_dim = 2048, n = 512 ... 16384, head_dim 64, 128, 256, causal and not;
/// gap: standard attention against flash at n = 1024, 16 heads, batch 64; decoding: 1 query, 16 heads on 2
/// K/V heads, 4k to 1M keys, in batches that make K and V 1 GiB and alone; softmax: 1 GiB of S.
const std::vector<Suite>& suites();

/// The jobs of a suite: every kernel on every problem in both passes, as far as supported. fa1 also with
/// temporaries in the inputs' dtype.
std::vector<BenchJob> jobs_of(const Suite& suite);
/// The same for one problem.
std::vector<BenchJob> jobs_of(const std::string& suite, const std::vector<std::string>& kernels,
                              const Problem& p);

}  // namespace flashsim::cli

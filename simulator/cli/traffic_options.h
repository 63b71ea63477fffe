// The command line of flashsim traffic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/cli/candidate.h"
#include "simulator/cli/output.h"
#include "simulator/cli/problem_options.h"
#include "simulator/cli/traffic_report.h"

namespace flashsim::cli {

/// --sweep n=256:32768 (doubling), block=64,128,256 or sram=48K:192K.
struct Sweep {
  enum class What : std::uint8_t { n, block, sram } what = What::n;
  std::vector<std::int64_t> values;
};
Sweep parse_sweep(const std::string& text);

struct TrafficOptions {
  ProblemOptions problem{{.seqlen_q = 4096, .seqlen_k = 4096, .head_dim = 128}};
  TilingOptions tiling;
  std::vector<std::string> algorithms;  ///< empty: those of standard, fa1, fa2, fa3 that compute the problem
  std::vector<Pass> passes{Pass::forward};
  const Gpu* gpu = find_gpu("a100-80");
  std::optional<Placement> sram;          ///< kernel: refuse what does not fit
  std::optional<std::int64_t> sram_size;  ///< bytes of SRAM instead of the GPU's
  std::optional<Sweep> sweep;
  std::string preset;
  std::string chart;                      ///< file that the chart goes to; empty: none
  std::string picture;                    ///< file that the tables go to; empty: none
  std::string schedule;                   ///< a file of the user's
  mutable std::optional<Candidate> user;  ///< that file, compiled when it was first asked for
  bool details = false;
  bool streaming = false;

  void declare(Options& options);
  /// The algorithms to run, each with the passes asked for that it has. Throws UsageError.
  std::vector<Candidate> chosen(const Problem& p) const;
  /// The tiling of `a`, with --streaming and the command line's blocks. Throws UsageError.
  Tiling tiling_of(const Candidate& c, const Problem& p) const;
  /// Bytes of SRAM the paper's count is held against: an SM's, unless --sram-size says otherwise.
  std::int64_t paper_sram() const { return sram_size.value_or(gpu->l1_and_shared_bytes_per_sm); }
  /// Bytes of shared memory a real thread block may use.
  std::int64_t kernel_sram() const { return sram_size.value_or(gpu->shared_bytes_per_block); }
};

/// The GPU of that name. Throws UsageError.
const Gpu* gpu_named(const std::string& name);

/// One pass with the options' tiling and SRAM.
PassReport report(const TrafficOptions& o, const Candidate& a, Pass pass, const Problem& p, const Tiling& t);

/// What was counted, as text, CSV or JSON.
std::string text_of(const std::vector<PassReport>& reports, const TrafficOptions& o, const Problem& p,
                    const Style& style, int width);
std::string csv_of(const std::vector<PassReport>& reports);
void print_reports_json(const std::vector<PassReport>& reports, const TrafficOptions& o, const Problem& p,
                        Output& out);

/// --sweep, as text or JSON.
void run_sweep(const TrafficOptions& o, Output& out);

}  // namespace flashsim::cli

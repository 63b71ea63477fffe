// The options that describe a Problem and a Tiling, the same in every command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cpu_reference/problem.h"
#include "simulator/cli/options.h"
#include "simulator/schedules/schedules.h"

namespace flashsim::cli {

/// What the command line may say about the problem, on top of a command's own defaults.
class ProblemOptions {
 public:
  /// `defaults` must be a valid problem.
  explicit ProblemOptions(const Problem& defaults) : problem_(defaults) {}

  void declare(Options& options);

  /// The problem asked for. Throws UsageError.
  Problem problem() const;
  /// The same for another length (both sequences) or head dimension, for sweeps.
  Problem problem(int seqlen) const;
  std::uint64_t seed() const { return seed_; }
  bool dtype_given() const { return dtype_.has_value(); }
  /// --causal or --window was given.
  bool mask_given() const { return problem_.masked(); }
  /// Some length was given.
  bool lengths_given() const { return seqlen_q_ || seqlen_k_; }

 private:
  Problem problem_;
  std::optional<int> seqlen_q_, seqlen_k_, heads_, heads_kv_;
  std::optional<Dtype> dtype_;
  std::uint64_t seed_ = 0;
};

/// What the command line may say about the tiling; the rest is the algorithm's own.
class TilingOptions {
 public:
  void declare(Options& options);

  /// The tiling of `algorithm` for this problem. Throws UsageError where a block is longer than its sequence.
  Tiling tiling(const Algorithm& algorithm, const Problem& p) const;
  /// A block was given.
  bool blocks_given() const { return block_q_ || block_k_; }
  /// Blocks and keys first to last, unless the command line asks for another order.
  void prefer_first_to_last() {
    order_ = order_.value_or(BlockOrder::first_to_last);
    key_order_ = key_order_.value_or(BlockOrder::first_to_last);
  }
  /// What --order says, if anything.
  std::optional<BlockOrder> order() const { return order_; }
  /// As if --block had been given.
  void set_block(int rows) { block_q_ = block_k_ = rows; }

 private:
  std::optional<int> block_q_, block_k_, stages_, warps_, splits_;
  std::optional<BlockOrder> order_, key_order_;
  std::optional<WarpSplit> warp_split_;
  std::optional<Dtype> temporaries_;
  bool per_tensor_scales_ = false, no_incoherent_ = false;
};

/// The algorithm of that name, with a message that lists all where there is none. Throws UsageError.
const Algorithm& algorithm_named(const std::string& name);

/// Throws UsageError where the algorithm does not compute this problem.
void require_supported(const Algorithm& algorithm, const Problem& p);

/// Throws UsageError where counts would leave 64 bits, or a schedule would take more than about 2^32 tile
/// steps.
void require_countable(const Problem& p, const Tiling& t);

}  // namespace flashsim::cli

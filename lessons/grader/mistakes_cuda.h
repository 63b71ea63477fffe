// Typical wrong kernels of the CUDA exercises: what they make of a case is computed here, on the processor.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lessons/grader/rubric.h"

namespace flashsim::lessons {

/// Which sums a merge of two pairs (m, l) multiplies by exp(their m - the new m).
enum class Factors : std::uint8_t { both, only_theirs, only_own, none, inverted };

/// What becomes of the lanes' sums: a lane may keep its own in the merge, and none need be taken at all.
enum class Sums : std::uint8_t { merged, own, own_rescaled, never };

/// A kernel of exercise 11, in what it may do wrong: a warp a row, a pair (m, l) a lane, then 32 pairs
/// merged.
struct RowsKernel {
  Factors in_lane = Factors::both, between_lanes = Factors::both;
  double first_m = -infinity;
  bool guarded = true;           ///< a maximum of -infinity is treated apart
  bool maximum_in_exp = true;    ///< is subtracted
  bool tail = true;              ///< columns behind the last multiple of 32 are read
  bool one_column_each = false;  ///< of every lane, and no more
  Sums sums = Sums::merged;
  bool maxima_merged = true;
  int last_offset = 1;  ///< of the merge's steps 16, 8, 4, 2, 1
};
/// m and l of every row.
using RowResults = std::pair<std::vector<double>, std::vector<double>>;
/// What it makes of `scores`, (rows, cols).
RowResults results_of(const RowsKernel& kernel, const std::vector<double>& scores, int cols);

struct RowsMistake {
  std::string name, hint;
  RowsKernel kernel;
};
const std::vector<RowsMistake>& rows_mistakes();
/// Null where no mistake gives this result, or it is that of the right kernel.
const RowsMistake* recognise_rows(const std::vector<double>& scores, int cols, const RowResults& got);

/// Exercise 12: the inside of its tile loop with a mistake, as schedules. A student's kernel may rescale for
/// every tile or for every key; a case with block_k = 1 shows what the latter gives.
std::vector<Mistake> kernel_mistakes();

}  // namespace flashsim::lessons

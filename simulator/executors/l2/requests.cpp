#include "simulator/executors/l2/requests.h"

#include <algorithm>
#include <numeric>

#include "cpu_reference/score_layout.h"

namespace flashsim::l2 {
namespace {

constexpr std::int64_t sector = 32;
constexpr int fragment_rows = 8, sum_group_rows = 16;

std::int64_t sectors(std::int64_t begin, std::int64_t end) {
  return end <= begin ? 0 : (end - 1) / sector - begin / sector + 1;
}

/// Sectors of bytes begin ... end - 1, moved in pieces of at most `piece` bytes.
std::int64_t sectors_in_pieces(std::int64_t begin, std::int64_t end, std::int64_t piece) {
  std::int64_t sum = 0;
  for (; begin < end; begin += piece) sum += sectors(begin, std::min(end, begin + piece));
  return sum;
}

}  // namespace

std::int64_t row_bytes_in_memory(Tensor x, const Problem& p) {
  const int element = bytes_in_hbm(x, p);
  return element * (is_score_shaped(x) ? score_pitch(p.seqlen_k, element) : cols_of(x, p));
}

double requested_bytes(const Operation& op, bool written, const Problem& p, const Tiling& t) {
  const Tensor x = op.tensor;
  const std::int64_t element = bytes_in_hbm(x, p), stride = row_bytes_in_memory(x, p);
  if (op.box_rows > 0) return static_cast<double>(op.box_rows * stride);
  const std::int64_t first_col = op.cols.begin * element,
                     end_col = op.cols.rows > 0 ? op.cols.end() * element : stride;
  const bool in_groups = x == Tensor::dQ_sum && t.split == WarpSplit::query,
             from_fragments = written && is_row_vector(x) && t.split == WarpSplit::query,
             by_row = end_col - first_col != stride;
  int head_rows = rows_of(x, p, t);
  if (in_groups) head_rows = (head_rows + sum_group_rows - 1) / sum_group_rows * sum_group_rows;
  const std::int64_t head_bytes = head_rows * stride, heads = std::int64_t{p.batch} * heads_of(x, p);

  std::int64_t sum = 0;
  const std::int64_t places = std::min(heads, sector / std::gcd(head_bytes, sector));
  for (std::int64_t place = 0; place < places; ++place) {  // where a head begins within a sector
    const std::int64_t base = place * head_bytes % sector,
                       such_heads = heads / places + (place < heads % places ? 1 : 0);
    std::int64_t here = 0;
    // Packed rows are queries of several heads side by side: row r is query r / pack of head r % pack.
    for (int g = 0; g < op.rows.pack; ++g) {
      std::int64_t first = (op.rows.begin - g + op.rows.pack - 1) / op.rows.pack,
                   end = (op.rows.end() - g + op.rows.pack - 1) / op.rows.pack;
      if (in_groups) end = (end + sum_group_rows - 1) / sum_group_rows * sum_group_rows;
      if (!by_row) {
        here += sectors_in_pieces(
            base + first * stride, base + end * stride,
            from_fragments ? fragment_rows * stride : std::max<std::int64_t>(1, (end - first) * stride));
        continue;
      }
      for (std::int64_t r = first; r < end; ++r)
        here += sectors(base + r * stride + first_col, base + r * stride + end_col);
    }
    sum += here * such_heads;
  }
  return static_cast<double>(sum * sector) / static_cast<double>(heads);
}

}  // namespace flashsim::l2

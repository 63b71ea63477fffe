#include "simulator/executors/recording.h"

#include <algorithm>

namespace flashsim {

bool operator==(const SramState& a, const SramState& b) {
  return a.sram == b.sram && a.registers == b.registers &&
         std::equal(a.tiles.begin(), a.tiles.end(), b.tiles.begin(), b.tiles.end(),
                    [](const LiveTile& x, const LiveTile& y) {
                      return x.tensor == y.tensor && x.rows == y.rows && x.cols == y.cols &&
                             x.bytes == y.bytes && x.in_sram == y.in_sram;
                    });
}

int Recording::tile_rows() const {
  const int rows = packed ? problem.seqlen_q * problem.group() : problem.seqlen_q;
  return blocks(rows, tiling.block_q).count();
}
int Recording::tile_cols() const { return col_blocks(problem, tiling).count(); }

std::int64_t Recording::requested(const Frame& f) const {
  std::int64_t sum = 0;
  for (const std::int64_t bytes : f.requested) sum += bytes;
  return sum;
}

std::int64_t Recording::requested(std::size_t frame, std::size_t move) const {
  const auto& all = frames[frame].requested;
  return move < all.size() ? all[move] : 0;
}

std::vector<TileState> tile_states(const Recording& r, std::size_t frame) {
  const int cols = r.tile_cols();
  std::vector<TileState> states(static_cast<std::size_t>(r.tile_rows()) * cols, TileState::not_yet);
  Blocks rows =
      r.packed ? packed_row_blocks(r.problem, r.tiling) : blocks(r.problem.seqlen_q, r.tiling.block_q);
  for (const Block i : rows) {
    const Blocks visible = visible_cols(r.problem, r.tiling, i);
    for (int j = 0; j < cols; ++j)
      if (j < visible.first || j >= visible.last) states[i.index * cols + j] = TileState::hidden;
  }
  const StepPosition& now = r.frames[frame].at;
  const int group = r.frames[frame].at.visits_tile() ? now.rows.group : now.block.row.group;
  const auto set = [&](const StepPosition& at, TileState state) {
    if (!at.visits_tile() || at.rows.group != group) return;
    const int bq = r.tiling.block_q, bk = r.tiling.block_k;
    // A schedule of the user's may compute S transposed: no more than the map has.
    const int last_row = std::min((at.rows.end() - 1) / bq, r.tile_rows() - 1);
    const int last_col = std::min((at.cols.end() - 1) / bk, cols - 1);
    for (int i = at.rows.begin / bq; i <= last_row; ++i)
      for (int j = at.cols.begin / bk; j <= last_col; ++j) states[i * cols + j] = state;
  };
  for (std::size_t k = frame; k-- > 0 && r.frames[k].at.kernel == now.kernel;)
    set(r.frames[k].at, TileState::done);
  set(now, TileState::current);
  return states;
}

}  // namespace flashsim

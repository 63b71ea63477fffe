#include "simulator/executors/tile_bytes.h"

#include "simulator/executors/traffic.h"

namespace flashsim {
namespace {

class ByTile final : public TileSteps {
 public:
  ByTile(const Problem& p, const Tiling& t)
      : TileSteps(t),
        p_(p),
        t_(t),
        tile_rows_(blocks(p.seqlen_q, t.block_q).count()),
        tile_cols_(col_blocks(p, t).count()),
        traffic_(p, t),
        bytes_(static_cast<std::size_t>(p.group()) * tile_rows_ * tile_cols_) {}

  std::vector<TileBytes> take() { return std::move(bytes_); }

 protected:
  void kernel_begins(const Launch& l) override { traffic_.begin_kernel(l); }
  void block_begins(const ThreadBlock& b) override {
    traffic_.begin_block(b);
    last_ = {};
  }
  void ring(const TileRef& shape, int stages) override { traffic_.allocate_ring(shape, stages); }
  void step_begins() override { step_ = {}; }

  void operation(const Operation& o) override {
    const auto moved = [&] {
      return o.tensor == Tensor::count ? 0 : traffic_.kernels().back().of(o.tensor).bytes();
    };
    const std::int64_t before = moved();
    traffic_.execute(o);
    const std::int64_t bytes = moved() - before;
    step_.all += bytes;
    if (o.tensor != Tensor::count && is_score_shaped(o.tensor)) step_.scores += bytes;
  }

  void step_ends(const StepPosition& at) override {
    if (at.visits_tile()) last_ = at;
    if (!last_.visits_tile()) return;
    const Block cols = last_.cols;
    TileBytes left = step_;
    for (int begin = cols.begin; begin < cols.end();) {
      const int j = begin / t_.block_k, end = std::min((j + 1) * t_.block_k, cols.end());
      TileBytes share = left;
      if (end < cols.end()) {
        share.all = step_.all * (end - begin) / cols.rows;
        share.scores = step_.scores * (end - begin) / cols.rows;
      }
      left.all -= share.all;
      left.scores -= share.scores;
      TileBytes& tile =
          bytes_[(static_cast<std::size_t>(last_.rows.group) * tile_rows_ + last_.rows.begin / t_.block_q) *
                     tile_cols_ +
                 j];
      tile.all += share.all;
      tile.scores += share.scores;
      begin = end;
    }
  }
  void block_ends() override { traffic_.end_block(); }
  void kernel_ends() override { traffic_.end_kernel(); }

 private:
  const Problem& p_;
  const Tiling& t_;
  int tile_rows_, tile_cols_;
  Traffic traffic_;
  TileBytes step_;
  StepPosition last_;  ///< the thread block's last visit
  std::vector<TileBytes> bytes_;
};

}  // namespace

std::vector<TileBytes> tile_bytes(const Program& program, const Problem& p, const Tiling& t) {
  ByTile executor(p, t);
  program(executor, Heads::one);
  return executor.take();
}

}  // namespace flashsim

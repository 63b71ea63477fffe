// Before FlashAttention-3 in e4m3 (Shah et al. 2024, section 3.3): Q and K are rotated by random signs and a
// Hadamard matrix, which leaves Q K^T alone but spreads outliers (incoherent processing), then quantised with
// one scale a tile (block quantisation); V has one scale a head. Scales hold the largest magnitude, which
// becomes e4m3's 448.
#include "simulator/schedules/schedules.h"

namespace flashsim {
namespace {

/// x8 = x in e4m3, with one scale a tile or, in two passes more, one a head.
void quantise(Device& gpu, Tensor x, Tensor x8, Tensor x_scale, Blocks tiles, bool per_tile, bool rotated) {
  const auto load = [=](Machine& sm, Block i) {
    Tile Xi = sm.load(x, i);
    if (rotated) sm.rotate(Xi);
    return Xi;
  };
  const auto scale_at = [=](Block i) { return per_tile ? scale_of_tile(i) : Block{0, 0, 1, i.group}; };
  if (!per_tile) {
    Blocks one = tiles;
    one.last = 1;
    gpu.kernel("initialise scale", one,
               [&](Machine& sm, Block i) { sm.store(x_scale, scale_at(i), sm.zeros(x_scale, scale_at(i))); });
    gpu.kernel("largest magnitude", tiles, [&](Machine& sm, Block i) {
      Tile Xi = load(sm, i);
      sm.reduce_max(x_scale, scale_at(i), sm.abs_max(x_scale, Xi));
    });
  }
  gpu.kernel("quantise", tiles, [&](Machine& sm, Block i) {
    Tile Xi = load(sm, i);
    Tile largest = per_tile ? sm.abs_max(x_scale, Xi) : sm.load(x_scale, scale_at(i));
    if (per_tile) sm.store(x_scale, scale_at(i), largest);
    sm.store(x8, i, sm.quantise(x8, Xi, largest));
  });
}

}  // namespace

void fa3_quantise(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  const bool per_tile = t.fp8_block_scales, rotated = t.fp8_incoherent_processing;
  quantise(gpu, Q, Q8, Q_scale, all_rows(p, t), per_tile, rotated);
  quantise(gpu, K, K8, K_scale, col_blocks(p, t), per_tile, rotated);
  quantise(gpu, V, V8, V_scale, col_blocks(p, t), false, false);
}

}  // namespace flashsim

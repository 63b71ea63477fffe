// FlashAttention-3 (Shah et al. 2024), Algorithms 1 and 2. A producer warp loads K and V through rings of
// buffers; consumer warpgroups each own rows of the block and issue the next Q K^T before they finish the
// last P V, so that the softmax hides behind the tensor cores. In e4m3 (section 3.3) the scales of Q and K
// come back into S, and that of V into O.
#include "simulator/schedules/schedules.h"

namespace flashsim {

void fa3_forward(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  const bool fp8 = p.dtype == Dtype::e4m3;
  const Tensor Q_ = fp8 ? Q8 : Q, K_ = fp8 ? K8 : K, V_ = fp8 ? V8 : V;
  if (fp8) fa3_quantise(gpu, p, t);
  const auto scale_at = [&](Block i) {
    return t.fp8_block_scales ? scale_of_tile(i) : Block{0, 0, 1, i.group};
  };

  // Thread blocks stay on their SM. Tiles are dealt out beforehand; where a mask makes them differ in length,
  // the next one goes to the first that asks.
  const Deal deal = p.masked() ? Deal::when_free : Deal::fixed;
  gpu.kernel("forward", persistent(row_blocks(p, t), deal), [&](Machine& sm, Block i) {
    const Blocks visible = visible_cols(p, t, i);
    Ring Ks = sm.ring(K_, t.block_k, t.stages), Vs = sm.ring(V_, t.block_k, t.stages);

    sm.producer([&](Machine& tma) {
      for (Block j : visible) {
        tma.load(Ks, j);
        tma.load(Vs, j);
      }
    });

    sm.consumers(t.warpgroups(), [&](Machine& wg, int w) {
      const Block iw = part_of(i, w, t.warpgroups());
      if (iw.rows == 0) return;
      Tile Qi = wg.load_box(Q_, iw, rows_of_part(t.block_q, t.warpgroups()));
      Tile Oi = wg.zeros(O, iw), li = wg.zeros(l, iw), mi = wg.fill(m, iw, -infinity);
      auto softmax = [&](Tile& Sij, Block j) {  // S becomes P; gives the factor for O
        if (fp8) {
          wg.scale_all(Sij, wg.load(Q_scale, scale_at(i)), 1 / 448.);
          wg.scale_all(Sij, wg.load(K_scale, scale_at(j)), 1 / 448.);
        }
        wg.mask(Sij, iw, j);
        Tile m_new = wg.max(mi, wg.row_max(Sij));
        Tile& Pij = wg.exp(Sij, m_new);
        Tile correction = wg.exp_difference(mi, m_new);
        wg.add_row_sum(wg.scale_rows(li, correction), Pij);
        if (fp8) wg.convert(Pij, Dtype::e4m3, 256);  // P lies in [0, 1]: use e4m3's range
        mi = std::move(m_new);
        return correction;
      };
      if (!visible.empty()) {
        Tile K0 = wg.take(Ks);
        Tile P_last = wg.matmul_nt_async(S, Qi, K0, scale_of(p));
        wg.wait(P_last);
        K0.release();
        softmax(P_last, visible[0]);
        for (Block j : after_first(visible)) {
          Tile Kj = wg.take(Ks);
          Tile Sij = wg.matmul_nt_async(S, Qi, Kj, scale_of(p));  // S of this step ...
          Tile V_last = wg.take(Vs);
          wg.add_matmul_async(Oi, P_last, V_last);  // ... queued before O of the step before
          wg.wait(Sij);
          Kj.release();
          Tile correction = softmax(Sij, j);  // runs while the tensor cores do P V
          wg.wait(Oi);
          wg.scale_rows(Oi, correction);
          P_last = std::move(Sij);
        }
        Tile V_last = wg.take(Vs);
        wg.add_matmul(Oi, P_last, V_last);
      }
      if (fp8) wg.scale_all(Oi, wg.load(V_scale, {0, 0, 1}), 1 / (448. * 256));
      wg.store(O, iw, wg.divide_rows(Oi, li));
      wg.store(LSE, iw, wg.log_sum(mi, li));
    });
  });
}

}  // namespace flashsim

// WrongBackward backward schedules, each with one known mistake.
#include "lessons/grader/rubric.h"

namespace flashsim::lessons {
namespace {

using enum Tensor;

enum class WrongBackward {
  no_d,
  no_scale_in_gradients,
  scale_missing,
  not_normalised,
  mask_missing,
  no_dropout,
  dropout_before_ds,
  no_dropout_on_dp,
  dv_from_ds,
  dq_overwritten
};

/// FlashAttention-2's backward pass with one mistake.
template <WrongBackward wrong>
void backward_with(Device& gpu, const Problem& p, const Tiling& t) {
  constexpr bool drops = wrong != WrongBackward::no_dropout;
  const double grad_scale = wrong == WrongBackward::no_scale_in_gradients ? 1 : scale_of(p);
  gpu.kernel("prepare", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.load(O, i), dOi = sm.load(dO, i);
    sm.store(D, i, wrong == WrongBackward::no_d ? sm.zeros(D, i) : sm.row_dot(dOi, Oi));
    sm.store(dQ_sum, i, sm.zeros(dQ_sum, i));
  });
  gpu.kernel("backward", col_blocks(p, t), [&](Machine& sm, Block j) {
    Tile dKj = sm.zeros(dK, j), dVj = sm.zeros(dV, j);
    Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
    for (Block i : visible_rows(p, t, j)) {
      Tile Qi = sm.load(Q, i), dOi = sm.load(dO, i);
      Tile LSEi = sm.load(LSE, i), Di = sm.load(D, i);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, wrong == WrongBackward::scale_missing ? 1 : scale_of(p));
      if (wrong != WrongBackward::mask_missing) sm.mask(Sij, i, j);
      Tile& Pij = sm.exp(Sij, wrong == WrongBackward::not_normalised ? sm.row_max(Sij) : sm.copy(m, LSEi));
      if (wrong == WrongBackward::dropout_before_ds) sm.dropout(Pij, i, j);
      Tile dPij = sm.matmul_nt(dP, dOi, Vj);
      if (drops && wrong != WrongBackward::no_dropout_on_dp) sm.dropout(dPij, i, j);
      Tile& dSij = sm.softmax_gradient(dPij, Pij, Di);
      Tile dQij = sm.zeros(dQ_sum, i);
      sm.add_matmul(dQij, dSij, Kj, grad_scale);
      if (wrong == WrongBackward::dq_overwritten)
        sm.store(dQ_sum, i, dQij);
      else
        sm.reduce_add(dQ_sum, i, dQij);
      sm.add_matmul_tn(dKj, dSij, Qi, grad_scale);
      if (drops && wrong != WrongBackward::dropout_before_ds) sm.dropout(Pij, i, j);
      sm.add_matmul_tn(dVj, wrong == WrongBackward::dv_from_ds ? dSij : Pij, dOi);
    }
    sm.store(dK, j, dKj);
    sm.store(dV, j, dVj);
  });
  gpu.kernel("convert dQ", row_blocks(p, t),
             [&](Machine& sm, Block i) { sm.store(dQ, i, sm.load(dQ_sum, i)); });
}

}  // namespace

std::vector<Mistake> backward_mistakes() {
  return {
      {"D is not subtracted", "dS = P o (dP - D), with D = rowsum(dO o O): softmax's gradient has two terms.",
       backward_with<WrongBackward::no_d>},
      {"dQ and dK are not scaled", "S = scale Q K^T, so dQ = scale dS K and dK = scale dS^T Q.",
       backward_with<WrongBackward::no_scale_in_gradients>},
      {"the recomputed scores are not scaled",
       "P must be the forward pass's: S = scale Q K^T there and here.",
       backward_with<WrongBackward::scale_missing>},
      {"the recomputed P is not normalised",
       "exp(S - m) is not P yet, and the tile's own maximum is not the row's. LSE holds both m and log l: P "
       "= exp(S - "
       "LSE).",
       backward_with<WrongBackward::not_normalised>},
      {"the mask is missing in the recomputation",
       "Hidden elements of P are 0 in the backward pass too: mask S.",
       backward_with<WrongBackward::mask_missing>},
      {"dropout is missing",
       "The forward pass dropped elements of P; draw the same mask again, for dP and for dV.",
       backward_with<WrongBackward::no_dropout>},
      {"dS is made from P after dropout",
       "dS = P o (dP - D) needs P without dropout: the mask is in dP already. Apply it to P only for dV, and "
       "last.",
       backward_with<WrongBackward::dropout_before_ds>},
      {"dP lacks the dropout mask", "What was dropped gives no gradient: dP = z o (dO V^T).",
       backward_with<WrongBackward::no_dropout_on_dp>},
      {"dV is made from dS", "dV = (z o P)^T dO: from P, not from dS.",
       backward_with<WrongBackward::dv_from_ds>},
      {"dQ is overwritten instead of added up",
       "Every column block has a part of dQ_i: reduce_add adds it to memory, store would replace it.",
       backward_with<WrongBackward::dq_overwritten>},
  };
}

}  // namespace flashsim::lessons

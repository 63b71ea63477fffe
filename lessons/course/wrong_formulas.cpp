#include "lessons/course/wrong_formulas.h"

#include <utility>

namespace flashsim::course {

void inverted_correction(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : visible_cols(p, t, i)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      Tile m_new = sm.max(mi, sm.row_max(Sij));
      Tile& Pij = sm.exp(Sij, m_new);
      Tile correction = sm.exp_difference(mi, m_new);
      Tile inverse = sm.exp_difference(m_new, mi);  // wrong: exp(m_new - m)
      sm.add_row_sum(sm.scale_rows(li, correction), Pij);
      sm.scale_rows(Oi, inverse);
      sm.add_matmul(Oi, Pij, Vj);
      mi = std::move(m_new);
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

void divided_every_visit(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : visible_cols(p, t, i)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      Tile m_new = sm.max(mi, sm.row_max(Sij));
      Tile& Pij = sm.exp(Sij, m_new);
      Tile correction = sm.exp_difference(mi, m_new);
      sm.add_row_sum(sm.scale_rows(li, correction), Pij);
      sm.scale_rows(Oi, correction);
      sm.add_matmul(Oi, Pij, Vj);
      sm.divide_rows(Oi, li);  // wrong: the next visit takes this for an undivided sum
      mi = std::move(m_new);
    }
    sm.store(O, i, Oi);
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

void maximum_outside(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block j : visible_cols(p, t, i)) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, scale_of(p));
      sm.mask(Sij, i, j);
      Tile m_new = sm.max(mi, sm.row_max(Sij));
      Tile zero = sm.zeros(m, i);
      Tile& Pij = sm.exp(Sij, zero);                  // wrong: exp(x), however large x is
      Tile outside = sm.exp_difference(zero, m_new);  // exp(-m_new), after the fact
      sm.scale_rows(Pij, outside);
      Tile correction = sm.exp_difference(mi, m_new);
      sm.add_row_sum(sm.scale_rows(li, correction), Pij);
      sm.scale_rows(Oi, correction);
      sm.add_matmul(Oi, Pij, Vj);
      mi = std::move(m_new);
    }
    sm.store(O, i, sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

}  // namespace flashsim::course

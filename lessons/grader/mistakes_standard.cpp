// WrongStandard versions of standard attention's softmax kernel, each with one known mistake.
#include "lessons/grader/rubric.h"

namespace flashsim::lessons {
namespace {

using enum Tensor;

enum class WrongStandard {
  no_maximum,
  not_normalised,
  normalised_twice,
  no_exponential,
  scale_missing,
  scale_of_d,
  missing_tail
};

template <WrongStandard wrong>
void standard_with(Device& gpu, const Problem& p, const Tiling& t) {
  Blocks rows = row_blocks(p, t), cols = col_blocks(p, t);
  if (wrong == WrongStandard::missing_tail) rows.last = p.seqlen_q / t.block_q;
  const double scale = wrong == WrongStandard::scale_missing ? 1
                       : wrong == WrongStandard::scale_of_d  ? 1.0 / p.head_dim
                                                             : scale_of(p);
  gpu.kernel("S = Q K^T", row_blocks(p, t), cols, [&](Machine& sm, Block i, Block j) {
    Tile Qi = sm.load(Q, i), Kj = sm.load(K, j);
    sm.store(S, i, j, sm.matmul_nt(S, Qi, Kj, scale));
  });
  gpu.kernel("P = softmax(S)", rows, [&](Machine& sm, Block i) {
    const Block all{0, 0, p.seqlen_k};
    for (Block r : rows_in(i)) {
      Tile Sr = sm.load(S, r, all);
      if (wrong != WrongStandard::no_exponential)
        sm.exp(Sr, wrong == WrongStandard::no_maximum ? sm.fill(m, r, 0) : sm.row_max(Sr));
      if (wrong != WrongStandard::not_normalised) sm.divide_rows(Sr, sm.row_sum(Sr));
      if (wrong == WrongStandard::normalised_twice) sm.multiply(Sr, 1.0 / p.seqlen_k);
      sm.store(P, r, all, Sr);
    }
  });
  gpu.kernel("O = P V", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i);
    for (Block j : cols) {
      Tile Pij = sm.load(P, i, j), Vj = sm.load(V, j);
      sm.add_matmul(Oi, Pij, Vj);
    }
    sm.store(O, i, Oi);
  });
}

}  // namespace

std::vector<Mistake> standard_mistakes() {
  return {
      {"no maximum is subtracted",
       "exp(s) overflows for s above 88 in fp32. exp(s - m) never does, and the quotient is the same.",
       standard_with<WrongStandard::no_maximum>},
      {"P is not divided by its row sum", "Each row of P must sum to 1: sm.divide_rows(Pr, sm.row_sum(Pr)).",
       standard_with<WrongStandard::not_normalised>},
      {"P is divided by more than its row sum", "Each row of P must sum to 1: divide once, by the row sum.",
       standard_with<WrongStandard::normalised_twice>},
      {"the exponential is missing", "Softmax is exp(s - m) over its sum; dividing the scores is no softmax.",
       standard_with<WrongStandard::no_exponential>},
      {"the scores are not scaled", "S = scale Q K^T: pass scale_of(p) to the product.",
       standard_with<WrongStandard::scale_missing>},
      {"the scores are scaled by 1 / d instead of 1 / sqrt(d)", "scale_of(p) is 1 / sqrt(head_dim).",
       standard_with<WrongStandard::scale_of_d>},
      {"the rows of the last, ragged block are left out",
       "n / B rounded down loses rows where B does not divide n: row_blocks(p, t) has them all.",
       standard_with<WrongStandard::missing_tail>},
  };
}

}  // namespace flashsim::lessons

// Wrong schedules, each with one known mistake: every one must be caught by comparing numbers with the
// oracle. Three of them are mistakes found in published explanations of FlashAttention.
#include <doctest/doctest.h>

#include "tests/simulator/cases.h"

using namespace flashsim;
using namespace flashsim::testing;
using enum flashsim::Tensor;

namespace {

enum class Mistake {
  none,
  no_rescale_of_o,
  no_rescale_of_l,
  mask_after_softmax,
  wrong_scale,
  missing_tail,
  inverted_correction,
  divide_every_step,
  no_maximum_in_sum,
  row_sum_after_dropout
};

/// FA2's forward pass with one mistake.
Mistake mistake = Mistake::none;
void fa2_with_mistake(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Qi = sm.load(Q, i);
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    Blocks visible = visible_cols(p, t, i);
    if (mistake == Mistake::missing_tail && visible.last * t.block_k > p.seqlen_k) --visible.last;
    for (Block j : visible) {
      Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
      Tile Sij = sm.matmul_nt(S, Qi, Kj, mistake == Mistake::wrong_scale ? 1.0 / p.head_dim : scale_of(p));
      if (mistake != Mistake::mask_after_softmax) sm.mask(Sij, i, j);
      Tile m_new = mistake == Mistake::no_maximum_in_sum ? sm.fill(m, i, 0) : sm.max(mi, sm.row_max(Sij));
      Tile& Pij = sm.exp(Sij, m_new);
      if (mistake == Mistake::mask_after_softmax) sm.mask(Pij, i, j);
      Tile correction = mistake == Mistake::inverted_correction ? sm.exp_difference(m_new, mi)
                                                                : sm.exp_difference(mi, m_new);
      if (mistake == Mistake::row_sum_after_dropout) sm.dropout(Pij, i, j);
      if (mistake != Mistake::no_rescale_of_l) sm.scale_rows(li, correction);
      sm.add_row_sum(li, Pij);
      if (mistake != Mistake::no_rescale_of_o) sm.scale_rows(Oi, correction);
      if (mistake != Mistake::row_sum_after_dropout) sm.dropout(Pij, i, j);
      sm.add_matmul(Oi, Pij, Vj);
      if (mistake == Mistake::divide_every_step) sm.divide_rows(Oi, li);
      mi = std::move(m_new);
    }
    sm.store(O, i, mistake == Mistake::divide_every_step ? Oi : sm.divide_rows(Oi, li));
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

/// Flash-Decoding with parts added up instead of weighted by their LSE.
void decoding_with_wrong_merge(Device& gpu, const Problem& p, const Tiling& t) {
  decoding_forward(gpu, p, t);
  const Blocks splits = key_splits(p, t);
  gpu.kernel("merge", packed_row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i);
    for (Block s : splits) sm.add(Oi, sm.load(O_part, in_part(i, s.index)));
    sm.store(O, i, sm.multiply(Oi, 1.0 / splits.count()));
  });
}

Case typical(Dtype dtype, double stretch = 3) {
  return {.p = {.heads_q = 2,
                .heads_kv = 1,
                .seqlen_q = 50,
                .seqlen_k = 61,
                .head_dim = 16,
                .dtype = dtype,
                .causal = true},
          .t = {.block_q = 16, .block_k = 16, .num_splits = 3},
          .seed = 11,
          .stretch = stretch};
}

Algorithm of(Schedule forward) { return {"broken", "", "", forward, nullptr, nullptr, nullptr}; }

}  // namespace

TEST_CASE("the schedule without a mistake passes") {
  mistake = Mistake::none;
  for (Dtype dtype : {Dtype::fp64, Dtype::fp32, Dtype::fp16, Dtype::bf16}) {
    const Case c = typical(dtype);
    CHECK(forward_fault(of(fa2_with_mistake), c, inputs_of(c)) == "");
  }
}

TEST_CASE("every mistake is caught") {
  const struct {
    Mistake mistake;
    const char* name;
  } mistakes[] = {
      {Mistake::no_rescale_of_o, "O is not rescaled"},
      {Mistake::no_rescale_of_l, "l is not rescaled"},
      {Mistake::mask_after_softmax, "mask after softmax"},
      {Mistake::wrong_scale, "scale 1/d"},
      {Mistake::missing_tail, "the last, ragged tile is left out"},
      {Mistake::inverted_correction, "the correction factor is inverted (a published error)"},
      {Mistake::divide_every_step, "FA2's O divided in every step, FA1's form (a published error)"}};
  for (const auto& wrong : mistakes)
    for (Dtype dtype : {Dtype::fp64, Dtype::fp32, Dtype::fp16}) {
      CAPTURE(wrong.name);
      CAPTURE(name_of(dtype));
      mistake = wrong.mistake;
      const Case c = typical(dtype);
      CHECK(forward_fault(of(fa2_with_mistake), c, inputs_of(c)) != "");
    }
}

TEST_CASE("exp(-m) sum exp(x) V overflows (a published error), while sum exp(x - m) V does not") {
  const Case c = typical(Dtype::fp32, 200);
  mistake = Mistake::no_maximum_in_sum;
  CHECK(forward_fault(of(fa2_with_mistake), c, inputs_of(c)) != "");
  mistake = Mistake::none;
  CHECK(forward_fault(of(fa2_with_mistake), c, inputs_of(c)) == "");
}

TEST_CASE("a row sum taken after dropout is caught") {
  Case c = typical(Dtype::fp32);
  c.p.dropout_p = 0.4f;
  mistake = Mistake::row_sum_after_dropout;
  CHECK(forward_fault(of(fa2_with_mistake), c, inputs_of(c)) != "");
  mistake = Mistake::none;
  CHECK(forward_fault(of(fa2_with_mistake), c, inputs_of(c)) == "");
}

TEST_CASE("a merge that averages the parts is caught") {
  const Case c = typical(Dtype::fp32);
  CHECK(forward_fault(of(decoding_forward), c, inputs_of(c)) == "");
  CHECK(forward_fault(of(decoding_with_wrong_merge), c, inputs_of(c)) != "");
}

TEST_CASE("a load of what nothing wrote is refused, and what is never stored shows as NaN") {
  const Case c = typical(Dtype::fp32);
  const Inputs x = inputs_of(c);
  const Algorithm reads_p = of([](Device& gpu, const Problem& p, const Tiling& t) {
    gpu.kernel("O = P V", row_blocks(p, t), [&](Machine& sm, Block i) { sm.load(P, i); });
  });
  CHECK_THROWS_AS(run_forward(reads_p, c.p, c.t, x.q, x.k, x.v), MemoryError);
  const Algorithm first_block_only = of([](Device& gpu, const Problem& p, const Tiling& t) {
    gpu.kernel("some", row_blocks(p, t), [&](Machine& sm, Block i) {
      if (i.index == 0) sm.store(O, i, sm.zeros(O, i));
    });
  });
  const std::vector<double> o = run_forward(first_block_only, c.p, c.t, x.q, x.k, x.v).o;
  CHECK(o.front() == 0);
  CHECK(std::isnan(o.back()));
}

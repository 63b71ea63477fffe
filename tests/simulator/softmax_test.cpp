// The schedules of softmax alone: their numbers, between the matrix products of standard attention, and their
// bytes.
#include <doctest/doctest.h>

#include "simulator/executors/l2/l2.h"
#include "tests/simulator/cases.h"

using namespace flashsim;
using namespace flashsim::testing;

namespace {

template <Schedule softmax>
void attention(Device& gpu, const Problem& p, const Tiling& t) {
  using enum Tensor;
  gpu.kernel("S = Q K^T", row_blocks(p, t), col_blocks(p, t), [&](Machine& sm, Block i, Block j) {
    Tile Qi = sm.load(Q, i), Kj = sm.load(K, j);
    sm.store(S, i, j, sm.matmul_nt(S, Qi, Kj, scale_of(p)));
  });
  softmax(gpu, p, t);
  gpu.kernel("O = P V", row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i);
    for (Block j : col_blocks(p, t)) {
      Tile Pij = sm.load(P, i, j), Vj = sm.load(V, j);
      sm.add_matmul(Oi, Pij, Vj);
    }
    sm.store(O, i, Oi);
  });
}

}  // namespace

TEST_CASE("softmax between two matrix products is attention, in two passes as in three") {
  for (const Dtype dtype : {Dtype::fp64, Dtype::fp32, Dtype::fp16})
    for (const int block_k : {1, 16, 37, 200}) {
      Case c;
      c.p = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 33, .seqlen_k = 150, .head_dim = 16};
      c.p.dtype = dtype;
      c.t.block_q = 5, c.t.block_k = block_k;
      c.stretch = 20;  // the maximum grows on the way
      const Inputs x = inputs_of(c);
      const TensorForward truth = oracle_forward(c.p, x.q, x.k, x.v);
      const Tolerance tol = tolerance_of(c.p, magnitudes_of(c.p, x.q, x.k, x.v, {}),
                                         roundings_of(*find_algorithm("standard"), c.p, c.t));
      CAPTURE(name_of(dtype));
      CAPTURE(block_k);
      for (const Schedule schedule : {&attention<softmax_safe>, &attention<softmax_online>})
        CHECK(largest_error(run_forward(program_of(schedule, c.p, c.t), c.p, c.t, x.q, x.k, x.v).o,
                            truth.o) <= tol.o);
    }
}

TEST_CASE("safe softmax takes four accesses an element, online softmax three") {
  Problem p;
  p.batch = 2;
  p.heads_q = p.heads_kv = 3;
  p.head_dim = 64;
  Tiling t;
  t.block_q = 1, t.block_k = 2048, t.warps = 8;
  struct Case {
    Schedule schedule;
    int reads, n;
  };
  for (const Case& c : {Case{softmax_safe, 3, 512},
                        {softmax_online, 2, 512},
                        {softmax_safe, 3, 505},
                        {softmax_online, 2, 2333}}) {
    CAPTURE(c.n);
    p.seqlen_q = 512;
    p.seqlen_k = c.n;
    const int padded = (c.n + 15) / 16 * 16;  // rows are whole sectors
    const double scores = 2.0 * 2 * 3 * 512 * padded;
    const L2Traffic total = simulate_l2(c.schedule, p, t).total();
    CHECK(total.requested_read == c.reads * scores);
    CHECK(total.requested_written == scores);
    CHECK(total.dram_read == doctest::Approx(scores).epsilon(1e-9));  // rows in flight stay in L2
    CHECK(total.dram_written + total.left_dirty == doctest::Approx(scores).epsilon(1e-9));
  }
}

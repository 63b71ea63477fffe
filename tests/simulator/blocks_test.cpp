// Which tiles exist, against asking every pair of query and key.
#include "simulator/machine/blocks.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <set>

using namespace flashsim;

namespace {
Problem any_problem() {
  Problem p;
  p.heads_q = *rc::gen::inRange(1, 4);
  p.seqlen_q = *rc::gen::inRange(1, 60);
  p.seqlen_k = *rc::gen::inRange(1, 60);
  p.head_dim = 1;
  p.causal = *rc::gen::arbitrary<bool>();
  p.window_left = *rc::gen::inRange(-1, 30);
  p.window_right = *rc::gen::inRange(-1, 30);
  return p;
}
Tiling any_tiling() {
  Tiling t;
  t.block_q = *rc::gen::inRange(1, 25);
  t.block_k = *rc::gen::inRange(1, 25);
  t.num_splits = *rc::gen::inRange(1, 6);
  if (*rc::gen::arbitrary<bool>()) t.key_order = BlockOrder::last_to_first;
  return t;
}
}  // namespace

TEST_CASE(
    "the mask's ranges: first_key ... end_key holds exactly the visible keys, and neither bound decreases") {
  CHECK(rc::check([] {
    const Problem p = any_problem();
    for (int q = 0; q < p.seqlen_q; ++q) {
      for (int k = 0; k < p.seqlen_k; ++k) {
        const int at = q + p.seqlen_k - p.seqlen_q;  // bottom-right
        const bool visible = (!p.causal || k <= at) && (p.window_left < 0 || k >= at - p.window_left) &&
                             (p.window_right < 0 || p.causal || k <= at + p.window_right);
        RC_ASSERT(p.sees(q, k) == visible);
      }
      if (q > 0) RC_ASSERT(p.first_key(q) >= p.first_key(q - 1) && p.end_key(q) >= p.end_key(q - 1));
    }
  }));
}

TEST_CASE("visible_cols, visible_rows, is_visible, sees_all and is_last_visit agree with the mask") {
  CHECK(rc::check([] {
    const Problem p = any_problem();
    const Tiling t = any_tiling();
    for (Block i : row_blocks(p, t)) {
      std::set<int> seen;
      for (Block j : visible_cols(p, t, i)) seen.insert(j.index);
      for (Block j : col_blocks(p, t)) {
        bool any = false, all = true;
        for (int q = i.begin; q < i.end(); ++q)
          for (int k = j.begin; k < j.end(); ++k) (p.sees(q, k) ? any : all) = p.sees(q, k);
        RC_ASSERT((seen.count(j.index) == 1) == any);
        RC_ASSERT(is_visible(p, t, i, j) == any);
        RC_ASSERT(sees_all(p, i, j) == all);
        bool in_rows = false;
        for (Block r : visible_rows(p, t, j)) in_rows |= r.index == i.index && r.group == i.group;
        RC_ASSERT(in_rows == any);
        RC_ASSERT(is_last_visit(p, t, i, j) == (any && j.index == *seen.rbegin()));
      }
    }
  }));
}

TEST_CASE("blocks cover every row of every query head once, in either order") {
  CHECK(rc::check([] {
    const Problem p = any_problem();
    Tiling t = any_tiling();
    for (BlockOrder order : {BlockOrder::first_to_last, BlockOrder::last_to_first}) {
      t.order = order;
      std::vector<int> visits(std::size_t(p.seqlen_q) * p.heads_q);
      for (Block i : row_blocks(p, t))
        for (int q = i.begin; q < i.end(); ++q) ++visits[std::size_t(i.group) * p.seqlen_q + q];
      RC_ASSERT(std::all_of(visits.begin(), visits.end(), [](int v) { return v == 1; }));
      if (order == BlockOrder::last_to_first) RC_ASSERT(row_blocks(p, t)[0].end() == p.seqlen_q);
    }
    int packed = 0;
    for (Block i : packed_row_blocks(p, t)) packed += i.rows;
    RC_ASSERT(packed == p.seqlen_q * p.heads_q);
    int keys = 0;
    for (Block s : key_splits(p, t)) keys += s.rows;
    RC_ASSERT(keys == p.seqlen_k);
    RC_ASSERT(key_splits(p, t).count() <= t.num_splits);
  }));
}

// Every schedule gives the oracle's numbers, on any shape, mask, dtype and tiling.
#include <doctest/doctest.h>

#include "tests/simulator/cases.h"

using namespace flashsim;
using namespace flashsim::testing;

namespace {

void check_all_schedules(Dtype dtype) {
  for (const Algorithm& a : algorithms()) {
    if (dtype == Dtype::e4m3 && a.name != "fa3") continue;
    const std::string what = std::string(a.name) + " in " + name_of(dtype);
    CAPTURE(what);
    CHECK(rc::check(what + ", forward", [&] {
      const bool drops = [&] {
        Problem with_dropout;
        with_dropout.dropout_p = 0.5f;
        return a.fault(with_dropout).empty();
      }();
      const Case c = any_case(dtype, drops);
      RC_LOG() << c << std::endl;
      const std::string fault = forward_fault(a, c, inputs_of(c));
      if (!fault.empty()) RC_FAIL(fault);
    }));
    if (a.backward == nullptr) continue;
    CHECK(rc::check(what + ", backward", [&] {
      const Case c = any_case(dtype, true);
      RC_LOG() << c << std::endl;
      const std::string fault = backward_fault(a, c, inputs_of(c));
      if (!fault.empty()) RC_FAIL(fault);
    }));
  }
}

}  // namespace

TEST_CASE("every schedule is exact in fp64") { check_all_schedules(Dtype::fp64); }
TEST_CASE("every schedule is exact in fp32") { check_all_schedules(Dtype::fp32); }
TEST_CASE("every schedule is exact in fp16") { check_all_schedules(Dtype::fp16); }
TEST_CASE("every schedule is exact in bf16") { check_all_schedules(Dtype::bf16); }

TEST_CASE("blocks change the result of fp64 by rounding only") {
  const Case base = {
      .p = {.seqlen_q = 100, .seqlen_k = 90, .head_dim = 16, .dtype = Dtype::fp64, .causal = true},
      .t = {},
      .seed = 3};
  const Inputs x = inputs_of(base);
  const Tolerance tol =
      tolerance_of(base.p, magnitudes_of(base.p, x.q, x.k, x.v, {}), {.tiles = base.p.seqlen_k});
  for (const Algorithm& a : algorithms()) {
    CAPTURE(a.name);
    Tiling whole;
    whole.block_q = 100;
    whole.block_k = 90;
    const std::vector<double> once = run_forward(a, base.p, whole, x.q, x.k, x.v).o;
    for (int block : {1, 7, 16, 64, 89, 1000}) {
      Tiling t;
      t.block_q = t.block_k = block;
      CHECK(largest_error(run_forward(a, base.p, t, x.q, x.k, x.v).o, once) <= 2 * tol.o);
    }
  }
}

TEST_CASE("a hidden key that is infinite or NaN leaves the rows that do not see it clean") {
  for (const Algorithm& a : algorithms())
    for (const double poison : {std::nan(""), infinity, -infinity}) {
      CAPTURE(a.name);
      CAPTURE(poison);
      Case c = {.p = {.seqlen_q = 20, .seqlen_k = 20, .head_dim = 8, .dtype = Dtype::fp32, .causal = true},
                .t = {.block_q = 8, .block_k = 8},
                .seed = 5};
      Inputs x = inputs_of(c);
      for (int col = 0; col < 8; ++col) x.k[12 * 8 + col] = x.v[12 * 8 + col] = poison;
      const std::vector<double> truth = oracle_forward(c.p, x.q, x.k, x.v).o;
      const std::vector<double> got = run_forward(a, c.p, c.t, x.q, x.k, x.v).o;
      for (int i = 0; i < 20 * 8; ++i) {
        CAPTURE(i);
        CHECK(std::isfinite(got[i]) == std::isfinite(truth[i]));
      }
    }
}

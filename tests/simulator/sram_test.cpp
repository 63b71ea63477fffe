// What is on chip, against the sizes that the papers, the explainer and real kernels give.
#include <doctest/doctest.h>

#include "simulator/executors/sram.h"
#include "simulator/schedules/schedules.h"

using namespace flashsim;

namespace {
Problem explainer() {
  Problem p;
  p.seqlen_q = p.seqlen_k = 256;
  p.head_dim = 128;
  return p;
}
constexpr std::int64_t no_limit = std::int64_t{1} << 40;

std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const CapacityError& e) {
    return e.what();
  }
  return "";
}
}  // namespace

TEST_CASE("the explainer's 72 KiB: Q, K, V, O of 16 KiB and S of 8 KiB, and the row statistics beside them") {
  const SramUse use = sram_use(fa2_forward, explainer(), {}, Placement::paper, no_limit);
  const std::int64_t column = 64 * 4;  // l, m, and while the tile is worked on m of the tile and the new m
  CHECK(use.peak_sram == 72 * 1024 + 4 * column);
}

TEST_CASE("FA3 at d 128 holds what real kernels hold: 160 KiB at 128 x 128, 208 KiB at 128 x 176") {
  Problem p;
  p.seqlen_q = p.seqlen_k = 1024;
  p.head_dim = 128;
  Tiling t;
  t.block_q = t.block_k = 128;
  t.stages = 2;
  t.warps = 8;
  CHECK(sram_use(fa3_forward, p, t, Placement::kernel, no_limit).peak_sram == 160 * 1024);
  t.block_k = 176;
  CHECK(sram_use(fa3_forward, p, t, Placement::kernel, no_limit).peak_sram == 208 * 1024);
}

TEST_CASE("a tile too many is refused with its name and the largest block that fits") {
  Problem p = explainer();
  p.seqlen_q = p.seqlen_k = 4096;
  Tiling t;
  t.block_q = 128;
  t.block_k = 512;
  const std::int64_t capacity = 163 * 1024;
  const std::string refused = message_of([&] { sram_use(fa2_forward, p, t, Placement::kernel, capacity); });
  CHECK(refused.find("tile V of 512 x 128 needs 128 KiB") != std::string::npos);
  // Q, K and V of b x 128 fp16 values: 3 * 256 b bytes <= 166,912 gives b <= 217, and 208 is the multiple
  // of 16.
  CHECK(refused.find("largest square block that fits is 208") != std::string::npos);
  t.block_q = t.block_k = 208;
  CHECK_NOTHROW(sram_use(fa2_forward, p, t, Placement::kernel, capacity));
  t.block_q = t.block_k = 224;
  CHECK_THROWS_AS(sram_use(fa2_forward, p, t, Placement::kernel, capacity), CapacityError);
}

TEST_CASE("paper placement notes an overflow and goes on") {
  Tiling t;
  t.block_q = t.block_k = 256;
  const SramUse use = sram_use(fa2_forward, explainer(), t, Placement::paper, 100 * 1024);
  CHECK(use.peak_sram > 100 * 1024);
  CHECK(use.overflow.find("would be in use") != std::string::npos);
  // Q, K, V, O of b x 128 and S of b x b fp16 values, some rows in fp32: 80 is the last multiple of 16 in 100
  // KiB.
  CHECK(use.overflow.find("largest square block that fits is 80") != std::string::npos);
}

TEST_CASE("everything is given back at the end of a thread block") {
  const Problem p = explainer();
  Sram sram(p, Placement::kernel, no_limit);
  SerialDevice gpu(p, sram);
  for (const Algorithm& a : algorithms()) {
    CAPTURE(a.name);
    a.forward(gpu, p, {});
    CHECK(sram.sram_in_use() - (a.name == "fa3" ? 64 * 128 * 2 * 2 : 0) == 0);  // FA3's rings live to the end
    CHECK(sram.registers_in_use() == 0);
  }
}

TEST_CASE("holding more tiles than a ring has stages is refused") {
  const Problem p = explainer();
  const auto greedy = [](Device& gpu, const Problem& q, const Tiling& t) {
    gpu.kernel("greedy", row_blocks(q, t), [&](Machine& sm, Block) {
      Ring ring = sm.ring(Tensor::K, 64, 1);
      sm.producer([&](Machine& tma) {
        for (Block j : col_blocks(q, t)) tma.load(ring, j);
      });
      sm.consumers(1, [&](Machine& wg, int) { Tile first = wg.take(ring), second = wg.take(ring); });
    });
  };
  CHECK(message_of([&] {
          sram_use(greedy, p, {}, Placement::kernel, no_limit);
        }).find("all 1 stages of K are held") != std::string::npos);
}

// Lesson 3: tiles that fit on chip. Block size against capacity, and the paper's choice of B_r and B_c.
#include <fmt/format.h>

#include <algorithm>

#include "lessons/course/counting.h"
#include "lessons/course/lesson.h"
#include "simulator/executors/sram.h"
#include "simulator/report/theory.h"
#include "simulator/report/units.h"

namespace flashsim::course {
namespace {

std::int64_t no_limit() { return std::int64_t{1} << 60; }

/// What the largest step of FA2's loop holds, in the papers' count: every tile in fp16. Statistics of a row
/// (m, l) are left out of it, as the papers do.
double tile_bytes(const SramUse& use) {
  double bytes = 0;
  for (const LiveTile& x : use.at_peak)
    if (x.cols > 1) bytes += double(x.bytes);
  return bytes;
}

SramUse use_of(const Problem& p, const Tiling& t, Placement placement) {
  return sram_use(fa2_forward, p, t, placement, no_limit());
}

}  // namespace

Facts lesson_tiling(const Settings& s) {
  using enum Tensor;
  Facts facts;
  const Gpu& gpu = *s.gpu;
  const Problem p = heads_of_length(1, s.n, s.d);
  const Tiling t = square(p, s.block);
  const SramUse use = use_of(p, t, Placement::paper);
  const double capacity = double(gpu.l1_and_shared_bytes_per_sm);

  facts.answer("tile_kib", tile_bytes(use) / 1024, "KiB", 0.05, "{:.1f}");
  facts.text("sram", binary_bytes(capacity));
  facts.text("block_limit", binary_bytes(double(gpu.shared_bytes_per_block)));
  facts.number("tiles", double(blocks(s.n, t.block_q).count()) * blocks(s.n, t.block_k).count(), "{:.0f}");
  Table alive{{"<tile", "rows x columns", "fp16"}, {}};
  for (const LiveTile& x : use.at_peak)
    if (x.cols > 1)
      alive.rows.push_back({std::string(name_of(x.tensor)), fmt::format("{} x {}", x.rows, x.cols),
                            binary_bytes(double(x.bytes))});
  facts.table("alive", alive);

  // Blocks in steps of 16, as the tensor cores want them.
  int largest = 0;
  for (int block = 16; block <= std::min(1024, s.n); block += 16)
    if (tile_bytes(use_of(p, square(p, block), Placement::paper)) <= capacity) largest = block;
  facts.answer("largest_block", largest, "rows", 0.15, "{:.0f}");

  Table sizes{{"block", "tiles, fp16", "fits?", "kernel: SRAM", "fp32 in registers", "fits?", "requested"},
              {}};
  Chart chart;
  chart.id = "block_size";
  chart.title = fmt::format("FA2 forward: requested bytes of one head over the block (n {}, d {})", s.n, s.d);
  chart.x_label = "rows of a tile";
  chart.y_label = "bytes";
  chart.log_x = chart.log_y = true;
  chart.source = fmt::format("flashsim lesson run 3 --n {} --d {}", s.n, s.d);
  chart.series.push_back({"requested", {}, {}});
  for (int block = 16; block <= std::min(256, s.n); block *= 2) {
    const Tiling b = square(p, block);
    const double paper = tile_bytes(use_of(p, b, Placement::paper));
    const SramUse kernel = use_of(p, b, Placement::kernel);
    const bool sram_fits = kernel.peak_sram <= gpu.shared_bytes_per_block;
    const bool registers_fit = kernel.peak_registers <= 4LL * gpu.registers_per_sm;
    const double bytes = double(counted(fa2_forward, p, b).requested_bytes());
    sizes.rows.push_back({std::to_string(block), binary_bytes(paper), paper <= capacity ? "yes" : "no",
                          binary_bytes(double(kernel.peak_sram)), binary_bytes(double(kernel.peak_registers)),
                          sram_fits && registers_fit ? "yes" : "no", decimal_bytes(bytes)});
    chart.series[0].x.push_back(block);
    chart.series[0].y.push_back(bytes);
  }
  facts.table("sizes", sizes);
  facts.chart(chart);

  const double elements = capacity / bytes_of(p.dtype);
  const Tiling paper = paper_blocks({}, heads_of_length(1, 1 << 20, s.d), elements);
  facts.number("sram_elements", elements, "{:.0f}");
  facts.answer("paper_bc", paper.block_k, "rows", 0.02, "{:.0f}");
  facts.number("paper_br", paper.block_q, "{:.0f}");
  facts.text("paper_tiles",
             binary_bytes(tile_bytes(use_of(heads_of_length(1, 8192, s.d), paper, Placement::paper))));

  const KernelTraffic flash = counted(fa2_forward, p, t), standard = counted(standard_forward, p, whole(p));
  facts.text("flash_scores", decimal_bytes(double(flash.of(S).bytes() + flash.of(P).bytes())));
  facts.text("standard_scores", decimal_bytes(double(standard.of(S).bytes() + standard.of(P).bytes())));
  facts.text("flash_bytes", decimal_bytes(double(flash.requested_bytes())));
  facts.text("standard_bytes", decimal_bytes(double(standard.requested_bytes())));
  return facts;
}

}  // namespace flashsim::course

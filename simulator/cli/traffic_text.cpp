// The text of flashsim traffic: tables that fit the terminal.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/cli/table.h"
#include "simulator/cli/traffic_options.h"
#include "simulator/report/theory.h"

namespace flashsim::cli {
namespace {

double share(std::int64_t a, std::int64_t b) { return b == 0 ? 0 : double(a) / double(b); }

std::string pass_name(const PassReport& r) { return name_of(r.pass); }

/// What moves between memory and chip.
Table bytes_table(const std::vector<PassReport>& reports) {
  Table table({{"algorithm", Align::left},
               {"pass", Align::left},
               {"requested"},
               {"lower bound"},
               {"times", Align::right, 1},
               {"accesses", Align::right, 5},
               {"read"},
               {"written"},
               {"reduced", Align::right, 4},
               {"FLOP/B"}});
  for (const PassReport& r : reports) {
    const TensorTraffic moved = r.total.total();
    table.row({r.algorithm, pass_name(r), decimal_bytes(double(moved.bytes())),
               decimal_bytes(double(r.compulsory_bytes)),
               fmt::format("{:.1f}", double(moved.bytes()) / double(r.compulsory_bytes)),
               count(double(moved.elements())), decimal_bytes(double(moved.read.bytes)),
               decimal_bytes(double(moved.written.bytes)), decimal_bytes(double(moved.reduced.bytes)),
               fmt::format("{:.1f}", r.flops_per_byte())});
  }
  return table;
}

/// Bytes on chip, with a mark where there is not so much.
std::string marked(std::int64_t bytes, std::int64_t capacity) {
  return binary_bytes(double(bytes)) + (bytes > capacity ? " !" : "");
}

/// What is held on chip and off it.
Table memory_table(const std::vector<PassReport>& reports, const TrafficOptions& o) {
  Table table({{"algorithm", Align::left},
               {"pass", Align::left, 1},
               {"SRAM paper"},
               {"SRAM kernel"},
               {"registers", Align::right, 3},
               {"SRAM traffic"},
               {"extra HBM"},
               {"tiling", Align::left, 5}});
  for (const PassReport& r : reports)
    table.row({r.algorithm, pass_name(r), marked(r.paper.peak_sram, r.sram_capacity),
               marked(r.peak_sram(), o.kernel_sram()), binary_bytes(double(r.peak_registers())),
               decimal_bytes(double(r.total.sram_bytes())), decimal_bytes(double(r.extra_memory)),
               describe(r.tiling)});
  return table;
}

/// How the grid fills the GPU, and how fast it could be.
Table time_table(const std::vector<PassReport>& reports, const TrafficOptions& o) {
  Table table({{"algorithm", Align::left},
               {"pass", Align::left, 1},
               {"matmul FLOP", Align::right, 2},
               {"exp", Align::right, 6},
               {"other FLOP", Align::right, 6},
               {"blocks"},
               {"waves"},
               {"SMs busy"},
               {"roofline"},
               {"bound", Align::left},
               {"all from HBM", Align::right, 3}});
  for (const PassReport& r : reports) {
    const auto main_kernel = std::max_element(r.kernels.begin(), r.kernels.end(),
                                              [](const KernelReport& a, const KernelReport& b) {
                                                return a.roofline.longest() < b.roofline.longest();
                                              });
    const Occupancy& grid = main_kernel->occupancy;
    const bool fits = grid.blocks_per_sm > 0;
    table.row({r.algorithm, pass_name(r), count(double(r.total.matmul_flops)), count(double(r.total.exps)),
               count(double(r.total.other_flops)), grouped(grid.blocks),
               fits ? fmt::format("{:.2f}", grid.waves) : "-",
               fits ? fmt::format("{:.0f} %", 100 * grid.sm_utilisation) : "-", seconds(r.roofline_seconds()),
               r.bound(), seconds(r.requested_seconds(*o.gpu))});
  }
  return table;
}

Table kernels_table(const PassReport& r) {
  Table table({{"kernel", Align::left},
               {"blocks", Align::right, 2},
               {"per SM", Align::right, 4},
               {"waves", Align::right, 4},
               {"read"},
               {"written"},
               {"reduced", Align::right, 1},
               {"SRAM traffic", Align::right, 5},
               {"matmul FLOP", Align::right, 3},
               {"shared", Align::right, 3},
               {"registers", Align::right, 6},
               {"roofline"},
               {"bound", Align::left}});
  for (const KernelReport& k : r.kernels) {
    const TensorTraffic moved = k.traffic.total();
    const bool fits = k.occupancy.blocks_per_sm > 0;
    table.row({k.traffic.name, grouped(k.traffic.blocks),
               fits ? std::to_string(k.occupancy.blocks_per_sm) : "-",
               fits ? fmt::format("{:.2f}", k.occupancy.waves) : "-", decimal_bytes(double(moved.read.bytes)),
               decimal_bytes(double(moved.written.bytes)), decimal_bytes(double(moved.reduced.bytes)),
               decimal_bytes(double(k.traffic.sram_bytes())), count(double(k.traffic.matmul_flops)),
               binary_bytes(double(k.sram)), binary_bytes(double(k.registers)), seconds(k.roofline.longest()),
               k.roofline.bound()});
  }
  return table;
}

Table tensors_table(const PassReport& r, const Problem& p) {
  Table table({{"tensor", Align::left},
               {"size"},
               {"read"},
               {"times", Align::right, 1},
               {"written"},
               {"times", Align::right, 1},
               {"reduced", Align::right, 2},
               {"accesses", Align::right, 3},
               {"share"}});
  const std::int64_t all = r.total.requested_bytes();
  for (int i = 0; i < tensor_count; ++i) {
    const auto x = static_cast<Tensor>(i);
    const TensorTraffic& moved = r.total.of(x);
    if (moved.bytes() == 0) continue;
    const std::int64_t size = is_part(x) ? moved.written.bytes : tensor_bytes(x, p, r.tiling);
    const auto times = [&](std::int64_t bytes) {
      return bytes == 0 ? "" : fmt::format("{:.2f}", share(bytes, size));
    };
    table.row({std::string(name_of(x)), decimal_bytes(double(size)), decimal_bytes(double(moved.read.bytes)),
               times(moved.read.bytes), decimal_bytes(double(moved.written.bytes)),
               times(moved.written.bytes), decimal_bytes(double(moved.reduced.bytes)),
               count(double(moved.elements())), fmt::format("{:.1f} %", 100 * share(moved.bytes(), all))});
  }
  return table;
}

std::string theory_text(const Problem& p, const TrafficOptions& o, int width) {
  const double m = double(o.paper_sram()) / bytes_of(p.dtype);
  const double heads = double(p.batch) * p.heads_q;
  const std::string limit =
      theorem_applies(p, m)
          ? fmt::format("no exact algorithm grows slower than the latter for all M from d to n d = {}",
                        grouped(std::int64_t{std::min(p.seqlen_q, p.seqlen_k)} * p.head_dim))
          : std::string(
                "M is not between d and n d, so the latter is no limit here: inputs and outputs once are");
  return wrapped(
             fmt::format("Growth by the paper, in accesses without constant factors: n d + n^2 = {}, n^2 d^2 "
                         "/ M = {} with M = {} = {} elements; {}.",
                         count(heads * theta_standard(p)), count(heads * theta_flash(p, m)),
                         binary_bytes(double(o.paper_sram())), grouped(std::int64_t(m)), limit),
             std::min(width, 100)) +
         "\n";
}

}  // namespace

std::string text_of(const std::vector<PassReport>& reports, const TrafficOptions& o, const Problem& p,
                    const Style& style, int width) {
  std::string text = fmt::format("{}\n{}\n\n", style.bold(describe(p)), o.gpu->title);
  text += bytes_table(reports).text(style, width);
  text += "\n" + memory_table(reports, o).text(style, width);
  text += "\n" + time_table(reports, o).text(style, width) + "\n";
  const double ridge = o.gpu->flops_per_hbm_byte(p.dtype);
  std::string legend = fmt::format(
      "requested: what thread blocks load and store, before any cache. lower bound: inputs and outputs once, "
      "what no algorithm can do without. SRAM: of a thread block; ! where that is more than {} (paper: all "
      "of an SM) or {} (kernel). extra HBM: what has to be kept there besides inputs and outputs. waves: "
      "thread blocks of the longest kernel over those that run at once. roofline: every kernel as fast as "
      "its slowest unit with all SMs busy, each of its tensors through HBM once{}. ",
      binary_bytes(double(o.paper_sram())), binary_bytes(double(o.kernel_sram())),
      o.gpu->l2_bytes_per_s > 0 ? ", all requests through L2" : "");
  legend += ridge > 0 ? fmt::format("The tensor cores need {:.0f} FLOP per byte from HBM.", ridge)
                      : fmt::format("This GPU has no tensor cores for {}, so products count as free.",
                                    name_of(p.dtype));
  text += wrapped(legend, std::min(width, 100)) + "\n";
  text += theory_text(p, o, width);
  if (!o.details && reports.size() > o.passes.size()) return text;
  for (const PassReport& r : reports) {
    text += "\n" + style.bold(fmt::format("{}, {}", r.algorithm, name_of(r.pass))) + "  " +
            describe(r.tiling) + "\n";
    text += kernels_table(r).text(style, width, 2);
    text += "\n" + tensors_table(r, p).text(style, width, 2);
  }
  return text;
}

}  // namespace flashsim::cli

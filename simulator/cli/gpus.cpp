// flashsim gpus: the GPUs that the tool knows, as data with sources.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/cli/commands.h"
#include "simulator/cli/json.h"
#include "simulator/cli/table.h"
#include "simulator/machine/gpu.h"

namespace flashsim::cli {
namespace {

Json json_of(const Gpu& g) {
  return {{"name", g.name},
          {"title", g.title},
          {"hbm_bytes_per_s", g.hbm_bytes_per_s},
          {"hbm_bytes", g.hbm_bytes},
          {"l2_bytes", g.l2_bytes},
          {"l2_bytes_per_s", g.l2_bytes_per_s},
          {"sm_count", g.sm_count},
          {"clock_hz", g.clock_hz},
          {"l1_and_shared_bytes_per_sm", g.l1_and_shared_bytes_per_sm},
          {"shared_bytes_per_sm", g.shared_bytes_per_sm},
          {"shared_bytes_per_block", g.shared_bytes_per_block},
          {"shared_bytes_per_s", g.shared_bytes_per_s()},
          {"fp16_flops", g.fp16_flops},
          {"fp8_flops", g.fp8_flops},
          {"fp32_flops", g.fp32_flops},
          {"fp64_flops", g.fp64_flops},
          {"exp_per_s", g.exp_per_s()},
          {"fp16_flops_per_hbm_byte", g.flops_per_hbm_byte(Dtype::fp16)},
          {"spec_only", g.spec_only},
          {"source", g.source}};
}

std::string rate(double per_second, const char* unit) {
  return per_second > 0 ? fmt::format("{} {}", count(per_second), unit) : "-";
}

void print_gpus(Output& out) {
  if (out.json()) {
    Json document = json_document("gpus");
    for (const Gpu& g : gpus()) document["gpus"].push_back(json_of(g));
    return print_json(out, document);
  }
  Table table({{"name", Align::left},
               {"HBM"},
               {"HBM rate"},
               {"L2", Align::right, 1},
               {"L2 rate", Align::right, 4},
               {"SMs"},
               {"SRAM/SM"},
               {"per block", Align::right, 2},
               {"all SRAM", Align::right, 3},
               {"SRAM rate", Align::right, 2},
               {"fp16 FLOP/s"},
               {"fp8", Align::right, 4},
               {"exp/s", Align::right, 4},
               {"FLOP/B"},
               {"title", Align::left, 5}});
  for (const Gpu& g : gpus())
    table.row({std::string(g.name), decimal_bytes(double(g.hbm_bytes)),
               decimal_bytes(g.hbm_bytes_per_s) + "/s", binary_bytes(double(g.l2_bytes)),
               g.l2_bytes_per_s > 0 ? decimal_bytes(g.l2_bytes_per_s) + "/s" : "-",
               std::to_string(g.sm_count), binary_bytes(double(g.l1_and_shared_bytes_per_sm)),
               binary_bytes(double(g.shared_bytes_per_block)),
               binary_bytes(double(g.l1_and_shared_bytes_per_sm) * g.sm_count),
               decimal_bytes(g.shared_bytes_per_s()) + "/s", count(g.fp16_flops), rate(g.fp8_flops, ""),
               count(g.exp_per_s()), fmt::format("{:.0f}", g.flops_per_hbm_byte(Dtype::fp16)),
               std::string(g.title)});
  out.print(table.text(out.style(), out.width()));
  out.print("\n" +
            wrapped("SRAM/SM: L1 and shared memory of an SM. FLOP/B: fp16 FLOPs for each byte from HBM.",
                    std::min(out.width(), 110)) +
            "\n\nSources\n");
  for (const Gpu& g : gpus())
    out.print(fmt::format("  {:<8}  ", g.name) +
              indented(wrapped(fmt::format("{}: {}{}", g.title, g.source,
                                           g.spec_only ? " (specification only)" : ""),
                               std::min(out.width(), 110) - 12),
                       12) +
              "\n");
}

}  // namespace

Command gpus_command() {
  return {"gpus",
          "the GPUs that the other commands know, with sources",
          {"flashsim gpus", "flashsim gpus --json"},
          "",
          [](Options&) -> Run {
            return [](Output& out) {
              print_gpus(out);
              return ExitCode::ok;
            };
          }};
}

}  // namespace flashsim::cli

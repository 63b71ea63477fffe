// flashsim measure: hardware counters around kernels, and records of them.
#include <fmt/format.h>

#include <memory>

#include "simulator/cli/commands.h"
#include "simulator/cli/compare_cases.h"
#include "simulator/cli/measure_live.h"
#include "simulator/cli/table.h"

namespace flashsim::cli {
namespace {

struct Arguments {
  CaseOptions cases;
  std::string record;
  int repeats = default_launches;
  bool tensors_apart = false;
};

ExitCode run(Output& out, const Arguments& a) {
  Records all = measure_cases(
      a.cases.cases(), a.cases.order(), a.repeats, [&](const std::string& line) { out.note(line); },
      a.tensors_apart);
  if (all.records.empty())
    throw InputError("none of the " + std::to_string(a.cases.cases().size()) +
                     " cases could be measured; the messages above say why");
  if (!a.record.empty()) {
    AtomicFile file(a.record);
    file.write(to_json(all));
    file.commit();
    out.note(fmt::format("{} records written to {}", all.records.size(), a.record));
  }
  if (out.json()) {
    out.print(to_json(all));
    return ExitCode::ok;
  }
  Table table({{"kernel", Align::left},
               {"problem", Align::left, 4},
               {"requested read"},
               {"written"},
               {"after merging in L2", Align::right, 3},
               {"DRAM read"},
               {"written"},
               {"left dirty", Align::right, 2},
               {"DRAM, all launches", Align::left, 4},
               {"time"}});
  for (const Record& r : all.records) {
    const Observed& o = r.observed;
    table.row({r.what.kernel + (r.what.variant.empty() ? "" : "/" + r.what.variant) +
                   (r.what.backward ? " backward" : ""),
               describe(r.what.problem), decimal_bytes(o.requested_read), decimal_bytes(o.requested_written),
               decimal_bytes(o.l2_read), decimal_bytes(o.dram_read), decimal_bytes(o.dram_written),
               decimal_bytes(o.left_dirty),
               r.varies() ? decimal_bytes(r.dram_least) + " to " + decimal_bytes(r.dram_most) : "",
               seconds(o.seconds)});
  }
  const std::string order = gpu::describe(a.cases.order());
  out.print(fmt::format("{}, driver {}, CUDA {}, {}{}\n\n", all.device, all.driver, all.cuda, all.date,
                        order.empty() ? "" : "; thread blocks " + order) +
            table.text(out.style(), out.width()));
  return ExitCode::ok;
}

}  // namespace

Command measure_command() {
  return {
      "measure",
      "hardware counters around the CUDA kernels",
      {"flashsim measure --kernel fa2 --n 4096",
       "flashsim measure --suite bytes-v1 --record h200_kernels.json"},
      "Reads the counters inside this process (CUPTI). L2 is emptied before every launch, so DRAM bytes "
      "are those "
      "of a cold start. `flashsim doctor` says what is missing where counters cannot be read.",
      [](Options& options) -> Run {
        auto a = std::make_shared<Arguments>();
        a->cases.declare(options);
        options.integer("--repeats", a->repeats, 1, 99,
                        "measure N launches of each case, up to 4 N where they differ too much to tell their "
                        "median; the one with the median of DRAM bytes counts, the range is kept");
        options.flag("--tensors-apart", a->tensors_apart,
                     "have 0 to 30 MiB between any two tensors, other ones in every launch, instead of the "
                     "tensors side by side: where L2 is nearly full, that moves DRAM bytes");
        options.heading("Report");
        options.text("--record", "FILE", a->record, "write the counts, for `flashsim compare --records`");
        return [a](Output& out) { return run(out, *a); };
      }};
}

}  // namespace flashsim::cli

// flashsim sweep-l2: re-reads buffers of growing size, on the GPU or in the model of its L2.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <vector>

#include "gpu_kernels/measure/measure.h"
#include "simulator/cli/card_data.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/gpu_record.h"
#include "simulator/cli/json.h"
#include "simulator/cli/measure_card.h"
#include "simulator/cli/measure_live.h"
#include "simulator/cli/table.h"
#include "simulator/executors/l2/sweep.h"

namespace flashsim::cli {
namespace {

struct SweepArguments {
  std::string gpu, store;
  bool simulate = false, as_csv = false, no_store = false;
  int repeats = 20;
};

/// From a seventh of L2 to twice its size and beyond, where it stops helping.
std::vector<std::int64_t> sizes_for(std::int64_t l2_bytes) {
  std::vector<std::int64_t> sizes;
  const double l2 = static_cast<double>(l2_bytes);
  for (const double share :
       {0.13, 0.27, 0.33, 0.4, 0.47, 0.53, 0.6, 0.67, 0.73, 0.8, 0.87, 0.93, 1.0, 1.07, 1.2, 1.33, 1.6, 2.13})
    sizes.push_back(std::int64_t{std::llround(share * l2 / (1 << 20))} << 20);
  return sizes;
}

/// A row for each buffer: the model's misses beside the measured ones, where there are any.
void print_points(Output& out, const Gpu* model, const std::vector<std::int64_t>& sizes, const Card* card,
                  const SweepArguments& a) {
  Json document = json_document("sweep-l2");
  document["device"] = card != nullptr ? card->device : std::string(model->title);
  if (card != nullptr) document["partitions"] = card->partitions, document["usable"] = card->usable;
  Table table({{"buffer"}, {"miss share, model"}, {"measured"}, {"DRAM read"}, {"between partitions"}});
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Json j = {{"buffer_bytes", sizes[i]}};
    std::vector<std::string> row = {binary_bytes(static_cast<double>(sizes[i])), "-", "-", "-", "-"};
    if (model != nullptr) {
      const SweepPoint p = card != nullptr ? simulate_reread(*model, sizes[i], a.repeats, 1, card->usable)
                                           : simulate_reread(*model, sizes[i], a.repeats);
      j["model_miss_share"] = p.warm_miss_share;
      row[1] = fmt::format("{:.3f}", p.warm_miss_share);
      row[3] = decimal_bytes(p.dram_read_bytes), row[4] = decimal_bytes(p.fabric_bytes);
    }
    if (card != nullptr) {
      const RereadPoint& m = card->points[i];
      j["miss_share"] = m.miss_share, j["dram_read_bytes"] = m.dram_read;
      j["l2_read_bytes"] = m.l2_read, j["fabric_bytes"] = m.fabric;
      row[2] = fmt::format("{:.3f}", m.miss_share);
      row[3] = decimal_bytes(m.dram_read), row[4] = decimal_bytes(m.fabric);
    }
    document["points"].push_back(std::move(j));
    table.row(std::move(row));
  }
  if (out.json())
    print_json(out, document);
  else
    out.print(table.text(out.style(), out.width()));
}

std::string csv_of(const Card& card) {
  std::string text =
      fmt::format("# flashsim sweep-l2 --csv --repeats {}; {}, {}\n", card.repeats, card.device, card.date) +
      "MiB,dram_read_bytes,l2_read_bytes,fabric_bytes,warm_miss_share\n";
  for (const RereadPoint& p : card.points)
    text += fmt::format("{},{:.0f},{:.0f},{:.0f},{:.4f}\n", p.buffer_bytes >> 20, p.dram_read, p.l2_read,
                        p.fabric, p.miss_share);
  return text;
}

ExitCode run_sweep(Output& out, const SweepArguments& a) {
  const std::string reason = a.simulate ? "" : why_no_measurement();
  if (!reason.empty()) throw GpuNeededError(reason + "; --simulate shows what the model of L2 expects");
  const std::string device = a.simulate ? "" : gpu::device_info().name;
  const Gpu* model = !a.gpu.empty() ? find_gpu(a.gpu) : a.simulate ? find_gpu("h200") : gpu_of_device(device);
  if (model == nullptr && !a.gpu.empty())
    throw UsageError("--gpu: there is no GPU \"" + a.gpu + "\"; expected " + gpu_names());
  const std::vector<std::int64_t> sizes =
      sizes_for(a.simulate ? model->l2_bytes : gpu::device_info().l2_bytes);
  if (a.simulate) {
    print_points(out, model, sizes, nullptr, a);
    return ExitCode::ok;
  }
  const std::string path = a.no_store ? "" : a.store.empty() ? card_path(device) : a.store;
  if (!path.empty()) prepare_card_file(path);  // before a minute of measuring
  const Card card = measure_card(sizes, a.repeats);
  if (a.as_csv)
    out.print(csv_of(card));
  else
    print_points(out, model, sizes, &card, a);
  out.note(fmt::format("{} of L2 hold data ({} {}, {:.0f} % of them)",
                       binary_bytes(card.usable * static_cast<double>(card.l2_bytes)), card.partitions,
                       card.partitions == 1 ? "partition" : "partitions", 100 * card.usable));
  if (!path.empty()) {
    store_card(card, path);
    out.note(fmt::format("stored in {}{}", path,
                         a.store.empty() ? "; flashsim compare uses it for this card (--no-card ignores it)"
                                         : "; flashsim compare --card uses it"));
  }
  return ExitCode::ok;
}

}  // namespace

Command sweep_l2_command() {
  return {"sweep-l2",
          "how much the L2 cache holds: re-reads buffers of growing size",
          {"flashsim sweep-l2 --simulate"},
          "The miss share rises from 0, where a buffer stays in L2, to 1. Measured on this machine's GPU, "
          "beside what the model of its L2 expects: where both agree, the model fits the card. The result is "
          "kept as this card's data ($XDG_DATA_HOME/flashsim/cards): how much of L2 holds data, and on which "
          "side of a divided L2 the thread blocks of small launches sit. flashsim compare uses it.",
          [](Options& options) -> Run {
            auto a = std::make_shared<SweepArguments>();
            options.flag("--simulate", a->simulate, "the model alone, without a GPU");
            options.text("--gpu", "NAME", a->gpu, "the GPU to model, instead of the one measured on");
            options.integer("--repeats", a->repeats, 2, 1000, "how often each buffer is read");
            options.text("--store", "FILE", a->store, "keep the result there (default: as this card's data)");
            options.flag("--no-store", a->no_store, "keep nothing");
            options.flag("--csv", a->as_csv, "the measurement as docs/measurements keeps it");
            return [a](Output& out) {
              if (a->simulate && (a->as_csv || a->no_store || !a->store.empty()))
                throw UsageError("--csv, --store and --no-store are for measurements; --simulate has none");
              if (a->no_store && !a->store.empty())
                throw UsageError("--store and --no-store exclude each other; give one of them");
              return run_sweep(out, *a);
            };
          }};
}

}  // namespace flashsim::cli

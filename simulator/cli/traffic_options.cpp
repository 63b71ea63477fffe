#include "simulator/cli/traffic_options.h"

#include <fmt/format.h>

#include <limits>

#include "simulator/cli/errors.h"
#include "simulator/cli/picture.h"

namespace flashsim::cli {
namespace {

constexpr std::int64_t most_sram = std::int64_t{1} << 40;

std::vector<std::int64_t> parse_values(const std::string& name, const std::string& text) {
  std::vector<std::int64_t> values;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    for (const std::string& item : parse_list(name, text))
      values.push_back(parse_integer(name, item, 1, most_sram));
    return values;
  }
  const std::int64_t first = parse_integer(name, text.substr(0, colon), 1, most_sram);
  const std::int64_t last = parse_integer(name, text.substr(colon + 1), first, most_sram);
  for (std::int64_t v = first; v <= last; v *= 2) values.push_back(v);
  return values;
}

}  // namespace

Sweep parse_sweep(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw UsageError(
        fmt::format("--sweep is '{}'; expected what to vary and its values, as in n=256:32768 (doubling), "
                    "block=64,128,256 or sram=48K:192K",
                    text));
  Sweep s;
  s.what = static_cast<Sweep::What>(parse_choice("--sweep", text.substr(0, equals), {"n", "block", "sram"}));
  s.values = parse_values("--sweep " + text.substr(0, equals), text.substr(equals + 1));
  return s;
}

const Gpu* gpu_named(const std::string& name) {
  if (const Gpu* gpu = find_gpu(name)) return gpu;
  std::vector<std::string> names;
  for (const Gpu& g : gpus()) names.emplace_back(g.name);
  return &gpus()[parse_choice("--gpu", name, names)];
}

void TrafficOptions::declare(Options& options) {
  options.heading("What to count");
  options.value("-a,--algorithm", "NAMES",
                "one or more, with a comma between them, or all; see flashsim algorithms",
                [this](const std::string& text) {
                  algorithms.clear();
                  if (text == "all") {
                    for (const Algorithm& a : flashsim::algorithms()) algorithms.emplace_back(a.name);
                    return;
                  }
                  algorithms = parse_list("--algorithm", text);
                  for (const std::string& name : algorithms) algorithm_named(name);
                });
  options.text("--schedule", "FILE", schedule,
               "a schedule of your own, a C++ file; beside those of --algorithm");
  options.choice(
      "--pass", passes,
      std::vector<std::pair<std::string, std::vector<Pass>>>{{"forward", {Pass::forward}},
                                                             {"backward", {Pass::backward}},
                                                             {"both", {Pass::forward, Pass::backward}}},
      "which pass (default forward)");
  options.flag("--backward", "the same as --pass backward", [this] { passes = {Pass::backward}; });
  options.flag("--details", details, "bytes of every kernel and tensor too (always, for a single algorithm)");
  options.text("--preset", "NAME|list", preset, "reproduce a published figure; list shows them");
  options.value("--sweep", "WHAT=VALUES", "n=256:32768 (doubling), block=64,128,256 or sram=48K:192K",
                [this](const std::string& text) { sweep = parse_sweep(text); });
  options.value("--chart", "FILE",
                "the bytes, over the sweep if there is one, as .svg, .png (needs rsvg-convert) or .csv too",
                [this](const std::string& text) {
                  require_picture("--chart", text);
                  chart = text;
                });
  options.value(
      "--picture", "FILE",
      "the tables as they are printed, as .svg or .png; or their numbers, by kernel and tensor, as .csv",
      [this](const std::string& text) {
        require_picture("--picture", text);
        picture = text;
      });
  options.flag("--streaming", streaming,
               "standard: each operand of a product is read once, as the papers count, not once a tile");
  options.heading("Where");
  options.value("--gpu", "NAME", fmt::format("one of {} (default a100-80)", gpu_names()),
                [this](const std::string& text) { gpu = gpu_named(text); });
  options.choice("--sram", sram,
                 std::vector<std::pair<std::string, Placement>>{{"paper", Placement::paper},
                                                                {"kernel", Placement::kernel}},
                 "paper: count tiles as the paper does and warn; kernel: count every buffer and refuse what "
                 "does not fit");
  options.integer("--sram-size", sram_size, 1, most_sram,
                  "bytes of SRAM instead of the GPU's (M of the paper)");
  problem.declare(options);
  tiling.declare(options);
}

std::vector<Candidate> TrafficOptions::chosen(const Problem& p) const {
  std::vector<Candidate> all;
  std::vector<std::string> names = algorithms;
  if (names.empty() && schedule.empty()) names = {"standard", "fa1", "fa2", "fa3"};
  const bool asked = !algorithms.empty() && algorithms.size() < flashsim::algorithms().size();
  const bool forward = passes.front() == Pass::forward;
  std::string why;
  for (const std::string& name : names) {
    const Algorithm& a = algorithm_named(name);
    if (asked) require_supported(a, p);
    if (asked && !forward && a.backward == nullptr)
      throw UsageError(fmt::format(
          "{} has no backward pass of its own; choose --pass forward, or fa1, fa2 or standard", a.name));
    if (a.fault(p).empty() && (forward || a.backward != nullptr)) all.push_back({&a, nullptr});
    if (!a.fault(p).empty()) why = std::string(a.name) + ": " + a.fault(p);
  }
  if (!schedule.empty()) {
    if (!forward) throw UsageError("--schedule holds a forward pass; choose --pass forward");
    if (!user) user = user_candidate(schedule);
    all.push_back(*user);
    require_supported(*all.back().algorithm, p);
  }
  if (all.empty()) throw UsageError("none of the algorithms computes this problem (" + why + ")");
  return all;
}

Tiling TrafficOptions::tiling_of(const Candidate& c, const Problem& p) const {
  const Algorithm& a = *c.algorithm;
  Tiling t = tiling.tiling(a, p);
  if (streaming && (a.name == "standard" || a.name == "standard-eager")) {
    t.block_q = p.seqlen_q;
    t.block_k = p.seqlen_k;
  }
  return t;
}

PassReport report(const TrafficOptions& o, const Candidate& a, Pass pass, const Problem& p, const Tiling& t) {
  require_countable(p, t);
  const bool refuse = o.sram == Placement::kernel;
  try {
    const Bind bind = [&](const Problem& few, const Tiling& other) {
      return a.program(pass == Pass::backward, few, other);
    };
    return report_pass(a.name(), pass, bind, p, t, *o.gpu, refuse ? o.kernel_sram() : o.paper_sram(), refuse);
  } catch (const CapacityError& error) {
    throw UsageError(
        fmt::format("{} {} does not fit on chip: {}. Choose smaller blocks (--block) or another --gpu",
                    a.name(), name_of(pass), error.what()));
  }
}

}  // namespace flashsim::cli

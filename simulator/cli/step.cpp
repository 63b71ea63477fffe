// flashsim step: steps through an algorithm tile by tile.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "simulator/cli/candidate.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/json.h"
#include "simulator/cli/picture.h"
#include "simulator/cli/problem_options.h"
#include "simulator/cli/step_json.h"
#include "simulator/cli/step_session.h"
#include "simulator/cli/tensor_options.h"
#include "simulator/cli/traffic_options.h"
#include "simulator/executors/recorder.h"
#include "simulator/executors/sram.h"
#include "simulator/machine/gpu.h"

namespace flashsim::cli {
namespace {

constexpr int most_printed = 32;  ///< steps, where --from and --to do not say otherwise
constexpr std::int64_t most_steps = std::int64_t{1} << 40;

enum class Signs : std::uint8_t { automatic, unicode, ascii };

struct StepOptions {
  ProblemOptions problem{{.seqlen_q = 256, .seqlen_k = 256, .head_dim = 128}};
  TilingOptions tiling;
  TensorOptions tensors;
  std::string algorithm, schedule, rows, tile, gpu = "a100-80", picture;
  bool backward = false, plain = false;
  int head = 0, width = 0;
  Placement sram = Placement::paper;
  Signs signs = Signs::automatic;
  std::optional<std::int64_t> from, to;

  void declare(Options& options);
};

void StepOptions::declare(Options& o) {
  o.heading("What to step through");
  o.text("-a,--algorithm", "NAME", algorithm, "flashsim algorithms lists them (default fa2)");
  o.text("--schedule", "FILE", schedule, "a schedule of your own, a C++ file, instead of an algorithm");
  o.flag("--backward", backward, "the backward pass");
  o.integer("--head", head, 0, std::int64_t{1} << 31, "query head, counted over the batch (default 0)");
  problem.declare(o);
  tiling.declare(o);
  tensors.declare(o);
  o.heading("SRAM");
  o.text("--gpu", "NAME", gpu, "whose SRAM; flashsim gpus lists them (default a100-80)");
  o.choice("--sram", sram,
           std::vector<std::pair<std::string, Placement>>{{"paper", Placement::paper},
                                                          {"kernel", Placement::kernel}},
           "paper: tiles of Q, K, V, O and S in the inputs' dtype, too much is a warning; kernel: every "
           "buffer, too much is "
           "refused");
  o.heading("What to show");
  o.text("--rows", "LIST", rows, "rows of Q whose m and l are shown, e.g. 0,17 or 64-67");
  o.text("--tile", "I,J", tile, "start at this tile; printed: only its steps");
  o.integer("--from", from, 1, most_steps, "first step to print");
  o.integer("--to", to, 1, most_steps, "last step to print");
  o.value("--picture", "FILE",
          "not as text, but the first of these steps as .svg or .png (needs rsvg-convert) for slides, or the "
          "numbers of "
          "all of them as .csv",
          [this](const std::string& text) {
            require_picture("--picture", text);
            picture = text;
          });
  o.flag("--plain", plain, "print the steps, also on a terminal");
  o.integer("--width", width, 40, 1000, "columns of printed steps (default: the terminal's)");
  o.choice("--signs", signs,
           std::vector<std::pair<std::string, Signs>>{
               {"auto", Signs::automatic}, {"unicode", Signs::unicode}, {"ascii", Signs::ascii}},
           "characters for drawing (default: by the locale)");
}

/// Everything a pass is recorded from; forward and backward share the tensors.
struct Source {
  Candidate candidate;
  std::string title;  ///< of the algorithm with its paper, or the user's file
  const Gpu* gpu = nullptr;
  Problem problem;
  Tiling tiling;
  Tensors tensors;
  Placement placement = Placement::paper;
  int head = 0;
};

std::string algorithms_with_backward() {
  std::string names;
  for (const Algorithm& a : algorithms())
    if (a.backward != nullptr) names += (names.empty() ? "" : ", ") + std::string(a.name);
  return names;
}

std::int64_t capacity_of(const Source& s) {
  return s.placement == Placement::paper ? s.gpu->l1_and_shared_bytes_per_sm : s.gpu->shared_bytes_per_block;
}

/// Its messages know which block would fit, unlike those of a recording.
SramUse sram_use_of_pass(const Source& s, bool backward) {
  return sram_use_of([&](const Problem& p, const Tiling& t) { return s.candidate.program(backward, p, t); },
                     s.problem, s.tiling, s.placement, capacity_of(s));
}

StepPass record_pass(const Source& s, bool backward) {
  const Candidate& c = s.candidate;
  if (backward && c.user) throw UsageError("a schedule of your own has a forward pass only");
  if (!c.has(backward))
    throw UsageError(fmt::format("{} has no backward pass of its own; these have: {}", c.name(),
                                 algorithms_with_backward()));
  RecordRequest request;
  request.schedule = c.program(backward, s.problem, s.tiling);
  if (backward) request.before = c.program(false, s.problem, s.tiling);
  request.standard = Candidate{find_algorithm("standard"), nullptr}.program(backward, s.problem, s.tiling);
  request.problem = s.problem;
  request.tiling = s.tiling;
  request.backward = backward;
  request.head = s.head;
  request.placement = s.placement;
  request.capacity = capacity_of(s);
  request.q = &s.tensors.q;
  request.k = &s.tensors.k;
  request.v = &s.tensors.v;
  request.d_o = &s.tensors.d_o;
  try {
    if (s.placement == Placement::kernel) sram_use_of_pass(s, backward);  // before the numbers
    return {record(request), {c.name(), s.title, std::string(s.gpu->title)}};
  } catch (const CapacityError& e) {
    throw UsageError(
        fmt::format("{}. {} gives a thread block {}. Choose smaller blocks, or --sram paper to step "
                    "through it all the same",
                    e.what(), s.gpu->title, binary_bytes(double(capacity_of(s)))));
  }
}

Source source_of(const StepOptions& o, const Output& out) {
  Source s;
  if (!o.schedule.empty() && !o.algorithm.empty())
    throw UsageError("--algorithm and --schedule both say what to step through; give one of them");
  s.candidate = o.schedule.empty()
                    ? Candidate{&algorithm_named(o.algorithm.empty() ? "fa2" : o.algorithm), nullptr}
                    : user_candidate(o.schedule);
  const Algorithm& algorithm = *s.candidate.algorithm;
  s.title = o.schedule.empty()
                ? std::string(algorithm.title)
                : std::filesystem::path(o.schedule).filename().string() + ", a schedule of your own";
  // A lecture goes from the first tile to the last, whatever order keeps a GPU busiest.
  TilingOptions tiling = o.tiling;
  tiling.prefer_first_to_last();
  s.gpu = find_gpu(o.gpu);
  if (s.gpu == nullptr)
    throw UsageError(fmt::format("--gpu is '{}'; expected one of {}", o.gpu, gpu_names()));
  s.problem = o.problem.problem();
  if (!o.tensors.given())  // before filling tensors of a size that nobody steps through
    if (const std::string fault = fault_of_recording(s.problem, tiling.tiling(algorithm, s.problem));
        !fault.empty())
      throw UsageError(fault);
  s.tensors = o.tensors.load(s.problem, o.problem.seed(), o.problem.lengths_given(), out);
  require_supported(algorithm, s.problem);
  s.tiling = tiling.tiling(algorithm, s.problem);
  if (const std::string fault = fault_of_recording(s.problem, s.tiling); !fault.empty())
    throw UsageError(fault);
  const int heads = s.problem.batch * s.problem.heads_q;
  if (o.head >= heads)
    throw UsageError(fmt::format("--head is {}; expected 0 to {}: the batch has {} query heads in all",
                                 o.head, heads - 1, heads));
  s.head = o.head;
  s.placement = o.sram;
  return s;
}

/// The first step of the head asked for: heads of a group are recorded together.
std::size_t first_frame(const Recording& r, int head) {
  if (r.packed) return 0;
  for (std::size_t k = 0; k < r.frames.size(); ++k)
    if (r.head + r.frames[k].at.block.row.group == head) return k;
  return 0;
}

/// Which steps are printed.
std::vector<std::size_t> chosen_frames(const StepOptions& o, const Recording& r, std::size_t first,
                                       const Output& out) {
  const auto n = static_cast<std::int64_t>(r.frames.size());
  std::vector<std::size_t> frames;
  const auto require_step = [&](const char* name, const std::optional<std::int64_t>& step) {
    if (step && *step > n) throw UsageError(fmt::format("{} is {}; there are {} steps", name, *step, n));
  };
  require_step("--from", o.from);
  require_step("--to", o.to);
  if (o.from && o.to && *o.from > *o.to)
    throw UsageError(fmt::format("--from is {}, --to {}; expected --from to come first", *o.from, *o.to));
  const std::int64_t from = o.from.value_or(o.to ? 1 : static_cast<std::int64_t>(first) + 1),
                     to = o.to.value_or(n);
  if (!o.tile.empty()) {
    const auto [i, j] = parse_tile(o.tile, r);
    for (std::size_t at = step_of_tile(r, i, j, 0), last = 0;
         at < r.frames.size() && (frames.empty() || at > last);
         at = at + 1 < r.frames.size() ? step_of_tile(r, i, j, at + 1) : r.frames.size()) {
      frames.push_back(at);
      last = at;
    }
    if (frames.empty())
      throw UsageError(fmt::format("tile ({}) is never visited: the mask hides it", o.tile));
    return frames;
  }
  for (std::int64_t step = from; step <= to; ++step) {
    if (!o.to && static_cast<int>(frames.size()) == most_printed) {
      out.note(fmt::format("steps {} to {} of {}; --from and --to choose others", from, step - 1, n));
      break;
    }
    frames.push_back(static_cast<std::size_t>(step - 1));
  }
  return frames;
}

void print_frames(const StepPass& pass, const std::vector<std::size_t>& frames, const StepView& view,
                  Output& out) {
  for (const std::size_t k : frames) {
    if (k != frames.front()) out.print("\n" + view.style.dim(std::string(view.width, '-')) + "\n\n");
    out.print(render_frame(pass.recording, pass.title, k, view));
  }
}

Json frames_json(const Recording& r, const std::vector<std::size_t>& frames, const std::vector<int>& rows) {
  Json all = Json::array();
  for (const std::size_t k : frames) all.push_back(json_of_frame(r, k, rows));
  return all;
}

void print_frames_json(const StepPass& pass, const Source& s, const std::vector<std::size_t>& frames,
                       const std::vector<int>& rows, std::uint64_t seed, Output& out) {
  const Recording& r = pass.recording;
  Json document = json_document("step");
  document["algorithm"] = pass.title.name;
  document["pass"] = r.backward ? "backward" : "forward";
  document["problem"] = json_of(r.problem);
  document["tiling"] = json_of(r.tiling);
  document["gpu"] = s.gpu->name;
  document["sram"] = r.placement == Placement::paper ? "paper" : "kernel";
  document["seed"] = seed;
  document["steps"] = r.frames.size();
  document["frames"] = frames_json(r, frames, rows);
  print_json(out, document);
}

ExitCode run_step(const StepOptions& o, Output& out) {
  const auto source = std::make_shared<const Source>(source_of(o, out));
  if (double(source->problem.seqlen_q) * source->problem.seqlen_k > 1 << 22)
    out.note("recording; this takes some seconds ...");
  StepPass pass = record_pass(*source, o.backward);
  const Recording& r = pass.recording;
  if (!r.overflow.empty())
    out.note(fmt::format("warning: this does not fit the SRAM of {}: {}", source->gpu->title,
                         sram_use_of_pass(*source, o.backward).overflow));
  const int rows_in_all = r.packed ? r.problem.seqlen_q * r.problem.group() : r.problem.seqlen_q;
  const std::vector<int> rows = o.rows.empty() ? std::vector<int>() : parse_rows(o.rows, rows_in_all);
  const std::size_t first = first_frame(r, o.head);

  if (!o.picture.empty()) {
    const std::vector<std::size_t> frames = chosen_frames(o, r, first, out);
    if (wants_numbers(o.picture)) {
      write_numbers(csv_of_frames(frames_json(r, frames, rows)), o.picture);
      out.print(o.picture + "\n");
      return ExitCode::ok;
    }
    const std::size_t k = frames.front();
    StepView view;
    view.width = o.width > 0 ? o.width : picture_width;
    view.unicode = o.signs != Signs::ascii;
    view.rows = rows;
    write_text_picture(render_frame(r, pass.title, k, view),
                       fmt::format("{}, step {} of {}", pass.title.algorithm, k + 1, r.frames.size()),
                       o.picture);
    out.print(o.picture + "\n");
    return ExitCode::ok;
  }
  if (out.interactive() && !o.plain) {
    std::size_t start = o.from ? chosen_frames(o, r, first, out)[0] : first;
    if (!o.tile.empty()) start = chosen_frames(o, r, first, out)[0];
    const bool backward = o.backward;
    const bool unicode = o.signs == Signs::automatic ? locale_is_utf8() : o.signs == Signs::unicode;
    run_session(StepSession(std::move(pass), start, rows,
                            [source, backward] { return record_pass(*source, !backward); }),
                out.style(), unicode);
    return ExitCode::ok;
  }
  const std::vector<std::size_t> frames = chosen_frames(o, r, first, out);
  if (out.json()) {
    print_frames_json(pass, *source, frames, rows, o.problem.seed(), out);
    return ExitCode::ok;
  }
  StepView view;
  view.width = o.width > 0 ? o.width : out.width();
  view.unicode = o.signs == Signs::automatic ? locale_is_utf8() : o.signs == Signs::unicode;
  view.style = out.style();
  view.rows = rows;
  print_frames(pass, frames, view, out);
  return ExitCode::ok;
}

}  // namespace

Command step_command() {
  return {"step",
          "step through an algorithm tile by tile: numbers, bytes and SRAM as they come",
          {"flashsim step --n 256 --block 64", "flashsim step --causal --algorithm fa1 --plain",
           "flashsim step --backward --n 128 --block 64 --plain --to 4",
           "flashsim step --n 96 --d 32 --block 32 --tile 1,2 --json",
           "flashsim step --schedule tests/simulator/user_schedules/fa2.cpp --plain --to 2"},
          "On a terminal the keys n and b go forward and back, j jumps to a tile, r chooses rows, t goes to "
          "the backward "
          "pass, ? shows all keys and q quits. When the output is piped, the same frames are printed.",
          [](Options& options) -> Run {
            auto o = std::make_shared<StepOptions>();
            o->declare(options);
            return [o](Output& out) { return run_step(*o, out); };
          }};
}

}  // namespace flashsim::cli

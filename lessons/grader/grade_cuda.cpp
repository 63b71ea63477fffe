#include "lessons/grader/grade_cuda.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "cpu_reference/random.h"
#include "lessons/exercises/given/cuda_flash.h"
#include "lessons/grader/diagnosis.h"
#include "lessons/grader/graded_run.h"
#include "lessons/grader/measure.h"
#include "lessons/grader/mistakes_cuda.h"
#include "lessons/grader/toolchain.h"
#include "simulator/user_schedule/printable.h"
#include "simulator/user_schedule/temporary_folder.h"
#include "simulator/user_schedule/user_function.h"

namespace flashsim::lessons {
namespace {

struct Report {  // as given/cuda_main.cuh has it
  enum class Status : int { ok, no_gpu, failed } status;
  char words[124];
};

/// What a program says that finds no GPU.
struct NoGpu {
  std::string words;
};

std::vector<float> floats(const std::vector<double>& x) { return {x.begin(), x.end()}; }

class Question {
 public:
  template <class T>
  void add(const T& plain) {
    const auto* from = reinterpret_cast<const char*>(&plain);
    bytes_.insert(bytes_.end(), from, from + sizeof plain);
  }
  void add(const std::vector<float>& x) {
    const auto* from = reinterpret_cast<const char*>(x.data());
    bytes_.insert(bytes_.end(), from, from + x.size() * sizeof(float));
  }
  /// The two arrays of an answer, of n and m floats. Throws NoGpu where the program finds none, and
  /// UserScheduleError where its kernel fails.
  std::pair<std::vector<double>, std::vector<double>> ask(const UserFunction& user, std::size_t n,
                                                          std::size_t m) const {
    UserFunction::Calls calls = user.calls();
    std::vector<char> answer(sizeof(Report) + (n + m) * sizeof(float));
    calls.ask(bytes_.data(), bytes_.size(), answer.data(), answer.size());
    Report report{};
    std::memcpy(&report, answer.data(), sizeof report);
    const std::string words = printable({report.words, strnlen(report.words, sizeof report.words)});
    if (report.status == Report::Status::no_gpu) throw NoGpu{words};
    if (report.status != Report::Status::ok)
      throw UserScheduleError("the kernel failed; CUDA says: " + words + " (run it under compute-sanitizer)");
    std::vector<float> all(n + m);
    std::memcpy(all.data(), answer.data() + sizeof report, all.size() * sizeof(float));
    return {std::vector<double>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)),
            std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(n), all.end())};
  }

 private:
  std::vector<char> bytes_;
};

struct Rows {
  const char* name;
  double points;
  int rows, cols;
  double stretch, hidden;
};
constexpr Rows rows_cases[] = {{"rows longer than a warp, ragged", 4, 37, 301, 3, 0},
                               {"rows shorter than a warp", 2, 5, 7, 3, 0},
                               {"scores in the thousands", 2, 9, 64, 1000, 0},
                               {"hidden scores and hidden rows", 2, 33, 70, 3, 0.97}};

struct Flash {
  const char* name;
  double points;
  int heads, n_q, n_k;
  bool causal;
  Values values;
};
constexpr Flash flash_cases[] = {
    {"tiles divide the lengths", 2, 2, 128, 96, false, Values::normal},
    {"ragged, n_q != n_k", 2, 1, 65, 31, false, Values::normal},
    {"causal, fewer queries than keys", 2, 3, 50, 77, true, Values::normal},
    {"causal, queries that see nothing", 2, 1, 90, 40, true, Values::normal},
    {"scores in the hundreds", 1, 1, 40, 70, false, Values::large_logits},
    {"every tile has a larger maximum", 1, 1, 40, 70, false, Values::growing_maxima}};

/// Points and messages from a case's results; `mistake` is asked for what gives the same where one is wrong.
template <class Recognise>
void judge(const std::vector<Comparison>& results, const Problem& p, bool show_numbers,
           const Recognise& mistake, CheckGrade& g, ExerciseGrade& grade) {
  for (const Comparison& c : results)
    if (!c.ok()) g.message += (g.message.empty() ? "" : "; ") + difference_of(c, p, show_numbers);
  if (g.message.empty())
    g.earned = g.points;
  else if (grade.mistake.empty() && grade.problem.empty())
    if (const auto* m = mistake()) {
      grade.mistake = m->name;
      grade.hint = m->hint;
    }
}

void grade_rows(const UserFunction& user, const Rows& s, const GradeOptions& options, std::uint64_t seed,
                CheckGrade& g, ExerciseGrade& grade) {
  const auto n = static_cast<std::size_t>(s.rows), cols = static_cast<std::size_t>(s.cols);
  std::vector<double> x = random_tensor(Distribution::normal, seed, 2011, n * cols);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(s.stretch * x[i]);
    const double share = (random_value(Distribution::uniform, seed, 2012, i) + 1) / 2;
    if (share < s.hidden || (s.hidden > 0 && i / cols % 3 == 0)) x[i] = -infinity;
  }
  std::vector<double> m(n, -infinity), l(n, 0);
  double largest_l = 0;
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t c = 0; c < cols; ++c) m[r] = std::max(m[r], x[r * cols + c]);
    for (std::size_t c = 0; c < cols && !std::isinf(m[r]); ++c) l[r] += std::exp(x[r * cols + c] - m[r]);
    largest_l = std::max(largest_l, l[r]);
  }
  Question q;
  q.add(s.rows);
  q.add(s.cols);
  q.add(floats(x));
  const RowResults got = q.ask(user, n, n);
  // Each term: s - m rounded (at most 104 where exp does not underflow) and expf's 2 units; a sum of cols
  // terms, rescaled at most cols times (two roundings each and expf).
  const double u = std::ldexp(1.0, -24);
  Problem p;
  p.seqlen_q = s.rows;
  judge(
      {compare(Tensor::m, got.first, m, 0),
       compare(Tensor::l, got.second, l, largest_l * u * (2 * 104 + 8 + 6.0 * s.cols))},
      p, options.seed == 0, [&] { return recognise_rows(x, s.cols, got); }, g, grade);
}

void grade_flash(const UserFunction& user, const Flash& f, const GradeOptions& options, std::uint64_t seed,
                 CheckGrade& g, ExerciseGrade& grade) {
  Case c;
  c.p.heads_q = c.p.heads_kv = f.heads;
  c.p.seqlen_q = f.n_q;
  c.p.seqlen_k = f.n_k;
  c.p.head_dim = head_dim;
  c.p.dtype = Dtype::fp32;
  c.p.causal = f.causal;
  c.values = f.values;
  c.seed = seed;
  const Truth truth = truth_of(c);
  Question q;
  q.add(FlashProblem{f.heads, f.n_q, f.n_k, f.causal, static_cast<float>(scale_of(c.p))});
  q.add(floats(truth.q));
  q.add(floats(truth.k));
  q.add(floats(truth.v));
  Run run;
  auto [o, lse] = q.ask(user, truth.forward.o.size(), truth.forward.lse.size());
  Roundings r;
  r.tiles = f.n_k;  // at worst a rescaling for every key
  const Tolerance tolerance = tolerance_of(c.p, truth.magnitudes, r);
  run.results = {compare(Tensor::O, o, truth.forward.o, tolerance.o),
                 compare(Tensor::LSE, lse, truth.forward.lse, tolerance.lse)};
  run.outputs = {std::move(o), std::move(lse)};
  // The kernel's end makes O = 0 and LSE = -infinity of an l that is NaN; a schedule's does not.
  Run as_schedule = run;
  for (std::size_t row = 0; row < truth.forward.lse.size(); ++row)
    if (as_schedule.outputs[1][row] == -infinity && truth.forward.lse[row] != -infinity) {
      as_schedule.outputs[1][row] = std::nan("");
      std::fill_n(as_schedule.outputs[0].begin() + static_cast<std::ptrdiff_t>(row * head_dim), head_dim,
                  std::nan(""));
    }
  const Rubric rubric{nullptr, {}, {}, kernel_mistakes()};
  const auto recognised = [&]() -> const Mistake* {
    for (const Run& candidate : {as_schedule, run})
      for (const int keys : {32, 1}) {  // the kernel's tile, or a step for every key
        c.t.block_q = 64;
        c.t.block_k = keys;
        if (const Mistake* found = recognise(rubric, c, truth, candidate, {})) return found;
      }
    return nullptr;
  };
  judge(run.results, c.p, options.seed == 0, recognised, g, grade);
}

/// What a program of ours finds: a student's might claim that there is no GPU, so that nothing is judged.
/// Empty where there is one.
std::string words_without_gpu(const UserLimits& limits, const Toolchain& tools) {
  // By one compilation: a machine keeps its GPU while it grades.
  static std::array<std::optional<std::string>, 2> of_machine;
  std::optional<std::string>& found = of_machine[tools.all_files];
  if (found) return *found;
  const Exercise& e = *find_exercise(11);
  const TemporaryFolder folder;
  start_exercise(e, folder.path());
  Toolchain own = *cuda_toolchain_for(e);
  own.all_files = tools.all_files;
  const UserFunction probe = UserFunction::compile(folder.path() / e.file(), limits, own);
  Question q;
  q.add(1);
  q.add(1);
  q.add(std::vector<float>{0});
  try {
    q.ask(probe, 1, 1);
    found = "";
  } catch (const NoGpu& none) {
    found = none.words;
  }
  return *found;
}

}  // namespace

std::vector<CheckGrade> cuda_checks(const Exercise& e) {
  std::vector<CheckGrade> all;
  if (e.number == 11)
    for (const Rows& s : rows_cases) all.push_back({s.name, s.points, 0, {}});
  else
    for (const Flash& f : flash_cases) all.push_back({f.name, f.points, 0, {}});
  return all;
}

void grade_cuda(const std::filesystem::path& file, const GradeOptions& options, ExerciseGrade& grade) {
  grade.checks = cuda_checks(*grade.exercise);
  std::optional<Toolchain> tools = cuda_toolchain_for(*grade.exercise, options.cuda_compiler);
  if (!tools) {
    grade.skipped = "skipped: nvcc is not found, so this can neither be compiled nor run here";
    return;
  }
  tools->all_files = options.open_files;
  UserLimits limits = options.limits;
  limits.compile_seconds = 300;
  limits.run_seconds = std::max(limits.run_seconds, 60.0);
  limits.memory_bytes = std::int64_t{1} << 46;  // CUDA reserves address space for all of the GPU's memory
  const UserFunction user = UserFunction::compile(file, limits, *tools);
  for (std::size_t i = 0; i < grade.checks.size(); ++i) {
    CheckGrade& g = grade.checks[i];
    try {
      const std::uint64_t seed = options.seed * 1'000'003 + i;
      if (grade.exercise->number == 11)
        grade_rows(user, rows_cases[i], options, seed, g, grade);
      else
        grade_flash(user, flash_cases[i], options, seed, g, grade);
    } catch (const UserScheduleError& e) {
      g.message = e.what();
    } catch (const NoGpu&) {
      if (const std::string words = words_without_gpu(limits, *tools); !words.empty()) {
        grade.skipped =
            "skipped: it compiles, but there is no GPU here to run it on (CUDA says: " + words + ")" +
            (options.open_files ? ""
                                : ". If there is one, its driver needs files that are closed to student code "
                                  "here: grade with --open-files, in a container");
        return;
      }
      g.message = "the program says that there is no GPU, and there is one";
    }
  }
}

}  // namespace flashsim::lessons

#include "lessons/grader/grade_cuda.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "cpu_reference/random.h"
#include "lessons/exercises/given/cuda_flash.h"
#include "lessons/grader/graded_run.h"
#include "lessons/grader/measure.h"
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

/// The message of a comparison that fails; empty where it does not.
std::string fault_of(const Comparison& c) {
  return c.ok() ? std::string()
                : std::string(name_of(c.result)) + " is wrong, most at element " + std::to_string(c.at) +
                      ": off by " + std::to_string(c.error) + ", allowed are " + std::to_string(c.tolerance);
}

void ask_rows(const UserFunction& user, const Rows& s, std::uint64_t seed, CheckGrade& g) {
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
  const auto [got_m, got_l] = q.ask(user, n, n);
  // Each term: s - m rounded (at most 104 where exp does not underflow) and expf's 2 units; a sum of cols
  // terms, rescaled at most cols times (two roundings each and expf).
  const double u = std::ldexp(1.0, -24);
  g.message = fault_of(compare(Tensor::m, got_m, m, 0));
  if (g.message.empty())
    g.message = fault_of(compare(Tensor::l, got_l, l, largest_l * u * (2 * 104 + 8 + 6.0 * s.cols)));
}

void ask_flash(const UserFunction& user, const Flash& f, std::uint64_t seed, CheckGrade& g) {
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
  const auto [o, lse] = q.ask(user, truth.forward.o.size(), truth.forward.lse.size());
  Roundings r;
  r.tiles = f.n_k;  // at worst a rescaling for every key
  const Tolerance tolerance = tolerance_of(c.p, truth.magnitudes, r);
  g.message = fault_of(compare(Tensor::O, o, truth.forward.o, tolerance.o));
  if (g.message.empty()) g.message = fault_of(compare(Tensor::LSE, lse, truth.forward.lse, tolerance.lse));
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
  std::optional<Toolchain> tools = cuda_toolchain_for(*grade.exercise);
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
        ask_rows(user, rows_cases[i], seed, g);
      else
        ask_flash(user, flash_cases[i], seed, g);
      if (g.message.empty()) g.earned = g.points;
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

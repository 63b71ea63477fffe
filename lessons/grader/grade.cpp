#include "lessons/grader/grade.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <numeric>

#include "lessons/grader/diagnosis.h"
#include "lessons/grader/grade_calls.h"
#include "lessons/grader/grade_cuda.h"
#include "lessons/grader/measure.h"
#include "lessons/grader/rubric.h"
#include "lessons/grader/toolchain.h"
#include "simulator/user_schedule/printable.h"
#include "simulator/user_schedule/user_schedule.h"

namespace flashsim::lessons {
namespace fs = std::filesystem;
namespace {

bool is_skeleton(const Exercise& e, const fs::path& file) {
  if (!fs::is_regular_file(fs::symlink_status(file)) || fs::file_size(file) != e.skeleton().size())
    return false;
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return text == e.skeleton();
}

void grade_schedule(const UserSchedule& user, const GradeOptions& options, ExerciseGrade& grade) {
  const Rubric rubric = rubric_of(grade.exercise->number, options.seed);
  const auto begin = std::chrono::steady_clock::now();
  const double most_seconds = 2 * options.limits.run_seconds;
  double gate = 1;
  for (std::size_t i = 0; i < rubric.cases.size(); ++i) {
    const Case& c = rubric.cases[i];
    const Truth truth = truth_of(c);
    const Run reference = run_reference(rubric.reference, c, truth);
    Run run;
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > most_seconds)
      run.fault = "not run: the cases before took all the time there is";
    else
      run = run_case(user.program(c.p, c.t), c, truth, allowance_for(reference));
    bool lost = false;
    for (const Check& check : rubric.checks) {
      if (check.run != i) continue;
      grade.checks.push_back(grade_check(check, c, run, reference, options.seed == 0));
      lost = lost || grade.checks.back().earned < check.points;
      if (check.gate) gate = std::min(gate, grade.checks.back().earned);
    }
    if (lost && grade.mistake.empty() && grade.problem.empty())
      if (const Mistake* m = recognise(rubric, c, truth, run, reference)) {
        grade.mistake = m->name;
        grade.hint = m->hint;
      }
  }
  if (gate > 0) return;
  for (CheckGrade& g : grade.checks)
    if (g.earned > 0) {
      g.earned = 0;
      g.message = "passes, as the skeleton did; it counts once what is asked for is done";
    }
}

}  // namespace

std::vector<CheckGrade> checks_of(const Exercise& e, std::uint64_t seed) {
  if (e.kind == Kind::softmax_update) return softmax_checks();
  if (e.kind == Kind::tiling_choice) return tiling_checks();
  if (e.kind == Kind::cuda) return cuda_checks(e);
  std::vector<CheckGrade> all;
  for (const Check& c : rubric_of(e.number, seed).checks) all.push_back({c.name, c.points, 0, {}});
  return all;
}

double ExerciseGrade::points() const {
  return std::accumulate(checks.begin(), checks.end(), 0.0,
                         [](double s, const CheckGrade& c) { return s + c.points; });
}
double ExerciseGrade::earned() const {
  return std::accumulate(checks.begin(), checks.end(), 0.0,
                         [](double s, const CheckGrade& c) { return s + c.earned; });
}
bool ExerciseGrade::passed() const {
  return skipped.empty() && !checks.empty() &&
         std::all_of(checks.begin(), checks.end(), [](const CheckGrade& c) { return c.earned >= c.points; });
}

std::uint64_t seed_of(std::string_view secret) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : secret) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash == 0 ? 1 : hash;
}

ExerciseGrade grade_exercise(const Exercise& e, const fs::path& folder, const GradeOptions& options) {
  ExerciseGrade grade;
  grade.exercise = &e;
  const fs::path file = folder / e.file();
  try {
    if (!fs::exists(fs::symlink_status(file))) throw UserScheduleError("there is no " + e.file());
    grade.submitted = true;
    if (is_skeleton(e, file)) grade.problem = "the file is the skeleton still: look for TODO";
    const Toolchain tools = toolchain_for(e);
    switch (e.kind) {
      case Kind::schedule:
        grade_schedule(UserSchedule::compile(file, options.limits, tools), options, grade);
        break;
      case Kind::softmax_update:
        grade_softmax(UserFunction::compile(file, options.limits, tools), options, grade);
        break;
      case Kind::tiling_choice:
        grade_tiling(UserFunction::compile(file, options.limits, tools), options, grade);
        break;
      case Kind::cuda: grade_cuda(file, options, grade); break;
    }
  } catch (const std::exception& error) {  // of the submission, or of reading it
    grade.problem = printable(error.what());
    grade.checks = checks_of(e, options.seed);
    for (CheckGrade& c : grade.checks) c.message = grade.submitted ? "not run" : "not submitted";
  }
  return grade;
}

}  // namespace flashsim::lessons

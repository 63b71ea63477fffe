// Typical wrong kernels, graded without a GPU: compiled for threads of the processor (emulated_cuda/nvcc),
// with the same cases, limits and confinement. lessons_cuda does the same with nvcc where there is a GPU.
#include <set>

#include "lessons/grader/mistakes_cuda.h"
#include "tests/lessons/cuda_wrong.h"

using namespace flashsim;
using namespace flashsim::testing;

namespace {

lessons::GradeOptions emulated(std::uint64_t seed = 0) {
  lessons::GradeOptions o = quick(seed);
  o.limits.run_seconds = 60;
  o.cuda_compiler = std::string(FLASHSIM_SOURCE_DIR) + "/tests/lessons/emulated_cuda/nvcc";
  return o;
}

}  // namespace

TEST_CASE("emulated: keys pass, skeletons earn nothing") {
  for (const int exercise : {11, 12}) {
    CAPTURE(exercise);
    const lessons::Exercise& e = *lessons::find_exercise(exercise);
    for (const std::uint64_t seed : {std::uint64_t{0}, lessons::seed_of("another")}) {
      const lessons::ExerciseGrade key = graded(exercise, text_of(key_of(e)), emulated(seed));
      INFO(all_text(key), key.skipped);
      CHECK(key.passed());
      CHECK(key.mistake.empty());
    }
    const lessons::ExerciseGrade skeleton = graded(exercise, std::string(e.skeleton()), emulated());
    CHECK(skeleton.earned() == 0);
    CHECK(skeleton.mistake.empty());
  }
}

TEST_CASE("emulated: wrong kernels get the hint that names their mistake") {
  check_wrong_kernels(emulated());
}

TEST_CASE("a step for every key, not every tile, and its mistakes") {
  const char* const by_key =
      "    for (int j = 0; j < seen; ++j) {\n      float s = 0;\n      for (int c = 0; c < head_dim; ++c) s "
      "+= "
      "Q[c] * K[j][c];\n      s *= p.scale;\n      const float next = fmaxf(m, s), correction = expf(m - "
      "next), "
      "weight = expf(s - next);\n      l = l * correction + weight;\n      for (int c = 0; c < head_dim; "
      "++c) "
      "O[c] = O[c] * correction + weight * V[j][c];\n      m = next;\n    }\n  }\n";
  std::string text = text_of(key_of(*lessons::find_exercise(12)));
  const std::size_t from = text.find("    float S[keys]"), to = text.find("  if (!alive) return;");
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  text.replace(from, to - from, by_key);
  CHECK(graded(12, text, emulated()).passed());
  const struct {
    const char *change, *to, *mistake;
  } wrong[] = {{"O[c] * correction", "O[c]", "O is not rescaled when the maximum grows"},
               {"l * correction", "l", "l is not rescaled when the maximum grows"},
               {"expf(m - next)", "expf(next - m)", "l ends as 0 or NaN in every row"}};
  for (const auto& w : wrong) {
    const std::string mistake = w.mistake;
    CAPTURE(mistake);
    const lessons::ExerciseGrade g = graded(12, replaced(text, w.change, w.to), emulated());
    INFO(all_text(g));
    CHECK_FALSE(g.passed());
    CHECK(g.mistake == mistake);
  }
}

TEST_CASE("every mistake that has a name is shown by a wrong kernel") {
  std::set<std::string> shown, named;
  for (const WrongKernel& w : wrong_kernels) shown.insert(w.mistake);
  for (const lessons::RowsMistake& m : lessons::rows_mistakes()) named.insert(m.name);
  for (const lessons::Mistake& m : lessons::kernel_mistakes()) named.insert(m.name);
  for (const std::string& name : named) CHECK_MESSAGE(shown.count(name) == 1, name);
}

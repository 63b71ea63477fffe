// The CUDA exercises compile wherever nvcc is; where a GPU is too, keys pass and skeletons fail.
#include "lessons/grader/toolchain.h"
#include "tests/lessons/submissions.h"

using namespace flashsim;
using namespace flashsim::testing;

TEST_CASE("keys and skeletons of the CUDA exercises") {
  for (const lessons::Exercise& e : lessons::exercises()) {
    if (e.kind != lessons::Kind::cuda) continue;
    CAPTURE(e.name);
    const lessons::ExerciseGrade key = graded(e.number, text_of(key_of(e)));
    INFO(all_text(key));
    CHECK(key.problem.empty());
    CHECK(key.points() == doctest::Approx(10));
    if (!key.skipped.empty()) {
      MESSAGE(e.name, " ", key.skipped);
      CHECK(key.earned() == 0);
      CHECK_FALSE(key.passed());
      CHECK((key.skipped.find("no GPU") != std::string::npos) == lessons::cuda_toolchain_for(e).has_value());
    } else {
      CHECK(key.passed());
    }
    const lessons::ExerciseGrade skeleton = graded(e.number, std::string(e.skeleton()));
    CHECK(skeleton.problem.find("skeleton") != std::string::npos);  // and no compiler's message in its place
    CHECK(skeleton.earned() == 0);
  }
}

TEST_CASE("a CUDA file that does not compile says so") {
  const lessons::Exercise& e = *lessons::find_exercise(11);
  if (!lessons::cuda_toolchain_for(e)) {
    MESSAGE("skipped: nvcc is not found");
    return;
  }
  const lessons::ExerciseGrade g = graded(11, "__global__ void k() { nonsense; }\n");
  CHECK(g.problem.find("nonsense") != std::string::npos);
  CHECK(g.earned() == 0);
}

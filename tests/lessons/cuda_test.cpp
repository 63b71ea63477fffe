// The CUDA exercises on a GPU, confined as for a class: keys pass, skeletons and typical wrong kernels are
// rejected.
#include "tests/lessons/cuda_wrong.h"

using namespace flashsim;
using namespace flashsim::testing;

TEST_CASE("keys earn all points, with any seed; skeletons none") {
  for (const int exercise : {11, 12}) {
    CAPTURE(exercise);
    const lessons::Exercise& e = *lessons::find_exercise(exercise);
    for (const std::uint64_t seed : {std::uint64_t{0}, lessons::seed_of("another")}) {
      const lessons::ExerciseGrade key = graded(exercise, text_of(key_of(e)), quick(seed));
      INFO(all_text(key), key.skipped);
      CHECK(key.passed());
      CHECK(key.earned() == doctest::Approx(10));
    }
    const lessons::ExerciseGrade skeleton = graded(exercise, std::string(e.skeleton()));
    INFO(all_text(skeleton), skeleton.skipped);
    CHECK(skeleton.skipped.empty());
    CHECK(skeleton.earned() == 0);
    CHECK(skeleton.problem.find("skeleton") != std::string::npos);
  }
}

TEST_CASE("wrong kernels get the hint that names their mistake") { check_wrong_kernels(quick()); }

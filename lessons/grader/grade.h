// Grades a student's folder: each exercise compiled, run apart with limits, executed and counted here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lessons/exercises/exercise.h"
#include "simulator/user_schedule/user_program.h"

namespace flashsim::lessons {

struct CheckGrade {
  std::string name;
  double points = 0, earned = 0;
  std::string message;  ///< what was found where it is not all earned, else empty
};

struct ExerciseGrade {
  const Exercise* exercise = nullptr;
  bool submitted = false;
  std::string skipped;  ///< not empty: why it could not be checked here (no GPU); its points do not count
  std::string problem;  ///< why nothing could be run: it does not compile, is the skeleton, is missing
  std::string mistake;  ///< the known mistake whose result this is; empty where none is recognised
  std::string hint;     ///< what to think about
  std::vector<CheckGrade> checks;

  double points() const;
  double earned() const;
  bool passed() const;  ///< all points, and not skipped
};

struct GradeOptions {
  std::uint64_t seed = 0;  ///< 0: the inputs that students check with
  UserLimits limits{.compile_seconds = 60, .run_seconds = 20};
  /// CUDA programs may use every file of this user: for their own author, or where a container confines them.
  bool open_files = false;
  /// Compiles CUDA files in nvcc's place, with nvcc's options; empty: nvcc where it is found.
  std::filesystem::path cuda_compiler;
};

/// Grades one exercise in `folder`. Never throws for what a student did.
ExerciseGrade grade_exercise(const Exercise& e, const std::filesystem::path& folder,
                             const GradeOptions& options);

/// Names and points of an exercise's checks, with nothing earned yet.
std::vector<CheckGrade> checks_of(const Exercise& e, std::uint64_t seed);

/// A seed from any text that staff keep secret: FNV-1a, 64 bits; never 0.
std::uint64_t seed_of(std::string_view secret);

}  // namespace flashsim::lessons

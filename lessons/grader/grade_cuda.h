// The CUDA exercises: compiled where nvcc is, checked where a GPU is, skipped elsewhere, and it is said.
#pragma once

#include <vector>

#include "lessons/grader/grade.h"

namespace flashsim::lessons {

/// Sets `grade.skipped` where nvcc or a GPU is missing. Throws UserScheduleError where the file does not
/// compile.
void grade_cuda(const std::filesystem::path& file, const GradeOptions& options, ExerciseGrade& grade);
std::vector<CheckGrade> cuda_checks(const Exercise& e);

}  // namespace flashsim::lessons

// The exercises that answer calls: the grader asks, and knows the answers.
#pragma once

#include <vector>

#include "lessons/grader/grade.h"
#include "simulator/user_schedule/user_function.h"

namespace flashsim::lessons {

/// Exercise 1. Each check asks in a process of its own; nothing of one row's history is kept.
void grade_softmax(const UserFunction& user, const GradeOptions& options, ExerciseGrade& grade);
/// Exercise 10: the tiling is executed and counted, and so is every other one that fits.
void grade_tiling(const UserFunction& user, const GradeOptions& options, ExerciseGrade& grade);

/// Names and points of their checks.
std::vector<CheckGrade> softmax_checks();
std::vector<CheckGrade> tiling_checks();

}  // namespace flashsim::lessons

// What one check makes of one run.
#pragma once

#include "lessons/grader/grade.h"
#include "lessons/grader/rubric.h"

namespace flashsim::lessons {

/// The grade of `check` from the student's run and the reference's on the same case. `show_numbers`: messages
/// may show right values (not with staff's secret inputs).
CheckGrade grade_check(const Check& check, const Case& c, const Run& run, const Run& reference,
                       bool show_numbers);

/// Where a result is wrong, and by how much.
std::string difference_of(const Comparison& c, const Problem& p, bool show_numbers);

/// "1.5" or "2".
std::string points_text(double points);

}  // namespace flashsim::lessons

// How grades are written: for a person, and for the programs that collect them.
#pragma once

#include <string>
#include <vector>

#include "lessons/grader/grade.h"
#include "simulator/cli/json.h"
#include "simulator/cli/output.h"

namespace flashsim::cli {

/// One student's folder.
struct Submission {
  std::string name;
  std::vector<lessons::ExerciseGrade> grades;

  double points() const;
  double earned() const;
  bool passed() const;
};

/// "7.5"
std::string points_text(double points);

/// Every check, with what was found and a hint.
void print_grades(const Submission& s, Output& out);
/// What the student's `exercise check` shows: what passes in a line, what does not with its message.
void print_checks(const lessons::ExerciseGrade& g, Output& out);

/// `seed`: a fingerprint that tells seeds apart without giving the seed away.
Json json_of(const std::vector<Submission>& all, const std::string& seed);
/// JUnit XML: a suite an exercise, a case a check.
std::string junit_of(const std::vector<Submission>& all);
/// Gradescope's results.json.
Json gradescope_of(const Submission& s);
/// A line a student, a column an exercise.
std::string csv_of(const std::vector<Submission>& all);

}  // namespace flashsim::cli

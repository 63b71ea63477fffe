// Exercises by number on the command line.
#pragma once

#include <string>
#include <vector>

#include "lessons/exercises/exercise.h"

namespace flashsim::cli {

/// "3" -> exercise 3; a list as "1-4,6". Throws UsageError.
const lessons::Exercise& exercise_named(const std::string& text);
std::vector<const lessons::Exercise*> exercises_named(const std::string& list);

}  // namespace flashsim::cli

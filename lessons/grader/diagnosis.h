// Recognises a mistake by what it does: the same result, as a known wrong schedule, or what it moves.
#pragma once

#include "lessons/grader/rubric.h"

namespace flashsim::lessons {

/// Null where no mistake of the rubric gives these outputs (`run` is wrong), or shows in this traffic (`run`
/// is right).
const Mistake* recognise(const Rubric& rubric, const Case& c, const Truth& truth, const Run& run,
                         const Run& reference);

}  // namespace flashsim::lessons

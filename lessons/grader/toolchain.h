// What a submission is compiled and linked with, and confined to.
#pragma once

#include <optional>

#include "lessons/exercises/exercise.h"
#include "simulator/user_schedule/user_program.h"

namespace flashsim::lessons {

/// The Machine interface, the drivers and the given steps where the exercise has them; none of the
/// algorithms.
Toolchain toolchain_for(const Exercise& e);
/// nvcc with the exercise's main function; nothing where there is no nvcc. `compiler`, if not empty, is taken
/// in its place.
std::optional<Toolchain> cuda_toolchain_for(const Exercise& e, const std::filesystem::path& compiler = {});

}  // namespace flashsim::lessons

// The files of lessons/text and the records they quote, built into the library so that a lesson needs nothing
// but the executable.
#pragma once

#include <string_view>

namespace flashsim::course {

/// The file of that name, e.g. "01_memory_hierarchy.txt". Throws std::out_of_range where there is none.
std::string_view embedded_text(std::string_view name);

}  // namespace flashsim::course

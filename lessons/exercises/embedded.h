// The texts of lessons/exercises, compiled in.
#pragma once

#include <string_view>
#include <vector>

namespace flashsim::lessons {

struct EmbeddedFile {
  std::string_view path;  ///< below lessons/exercises, e.g. "03_tiled_forward/hints.md"
  std::string_view text;
};
const std::vector<EmbeddedFile>& embedded_files();

}  // namespace flashsim::lessons

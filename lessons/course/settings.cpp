#include "lessons/course/settings.h"

#include <fmt/format.h>

#include <stdexcept>

namespace flashsim::course {

std::vector<double> example_scores() { return {1.2, 3.0, 0.4, 2.1, 4.5, 1.8, 3.6, 0.9}; }

std::string shown(const Settings& s, const std::string& name) {
  if (name == "gpu") return std::string(s.gpu->name);
  if (name == "n") return std::to_string(s.n);
  if (name == "d") return std::to_string(s.d);
  if (name == "heads") return std::to_string(s.heads);
  if (name == "block") return std::to_string(s.block);
  if (name == "chunk") return std::to_string(s.chunk);
  if (name == "bytes") return std::to_string(s.bytes);
  if (name == "scores") return fmt::format("{}", fmt::join(s.scores, ","));
  if (name == "seed") return std::to_string(s.seed);
  throw std::out_of_range("no setting is called " + name);
}

}  // namespace flashsim::course

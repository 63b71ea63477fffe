#include "simulator/cli/candidate.h"

namespace flashsim::cli {

Program Candidate::program(bool backward, const Problem& p, const Tiling& t) const {
  if (user) return user->program(p, t);
  return program_of(backward ? algorithm->backward : algorithm->forward, p, t);
}

Candidate user_candidate(const std::string& file) {
  static const Algorithm entry = {"schedule",
                                  "a schedule of the user's own",
                                  "",
                                  nullptr,
                                  nullptr,
                                  [](const Problem& p) -> std::string {
                                    return p.dtype == Dtype::e4m3 ? "choose fp16, bf16, fp32 or fp64" : "";
                                  },
                                  [](const Problem&) { return Tiling{}; }};
  return {&entry, std::make_shared<UserSchedule>(UserSchedule::compile(file))};
}

}  // namespace flashsim::cli

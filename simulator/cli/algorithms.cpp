// flashsim algorithms: what the other commands take as --algorithm.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/cli/commands.h"
#include "simulator/cli/json.h"
#include "simulator/cli/table.h"
#include "simulator/schedules/schedules.h"

namespace flashsim::cli {
namespace {

void print_algorithms(Output& out) {
  if (out.json()) {
    Json document = json_document("algorithms");
    for (const Algorithm& a : algorithms())
      document["algorithms"].push_back(
          {{"name", a.name}, {"title", a.title}, {"idea", a.idea}, {"backward", a.backward != nullptr}});
    return print_json(out, document);
  }
  for (const Algorithm& a : algorithms()) {
    const std::string name = out.style().bold(fmt::format("{:<14}", a.name));
    const std::string text =
        fmt::format("{}{}: {}", a.title, a.backward != nullptr ? "" : ", forward only", a.idea);
    out.print(name + "  " + indented(wrapped(text, std::min(out.width(), 100) - 16), 16) + "\n");
  }
}

}  // namespace

Command algorithms_command() {
  return {"algorithms",
          "list the algorithms, one schedule each",
          {"flashsim algorithms"},
          "",
          [](Options&) -> Run {
            return [](Output& out) {
              print_algorithms(out);
              return ExitCode::ok;
            };
          }};
}

}  // namespace flashsim::cli

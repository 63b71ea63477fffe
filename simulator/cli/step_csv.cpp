#include "simulator/cli/step_json.h"
#include "simulator/report/svg.h"

namespace flashsim::cli {
namespace {

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

/// Lines of one step.
class CsvLines {
 public:
  CsvLines(std::string& csv, const Json& step) : csv_(csv), step_(text_of(step)) {}
  void add(const char* what, const std::string& name, const std::string& quantity, const Json& value) {
    csv_ += csv_line({step_, what, name, quantity, text_of(value)});
  }
  /// Every member but the one that names the object.
  void add_all(const char* what, const std::string& name, const Json& object, const char* but) {
    for (const auto& [quantity, value] : object.items())
      if (quantity != but && !value.is_structured() && !value.is_null()) add(what, name, quantity, value);
  }

 private:
  std::string& csv_;
  std::string step_;
};

void add_position(CsvLines& lines, const Json& at) {
  lines.add_all("position", "", at, "");
  lines.add("position", "thread block", "row", at["thread_block"]["row"]);
  lines.add("position", "thread block", "col", at["thread_block"]["col"]);
  if (at["tile"].is_null()) return;
  for (const char* index : {"i", "j"}) lines.add("position", "tile", index, at["tile"][index]);
  for (const char* range : {"rows", "cols"}) {
    lines.add("position", "tile", std::string(range) + " begin", at["tile"][range][0]);
    lines.add("position", "tile", std::string(range) + " end", at["tile"][range][1]);
  }
}

}  // namespace

std::string csv_of_frames(const Json& frames) {
  std::string csv = csv_line({"step", "what", "name", "quantity", "value"});
  for (const Json& f : frames) {
    CsvLines lines(csv, f["step"]);
    add_position(lines, f["position"]);
    for (const Json& x : f["operations"]) lines.add_all("operation", text_of(x["text"]), x, "text");
    lines.add_all("SRAM", "", f["sram"], "");
    for (const Json& x : f["sram"]["tiles"])
      lines.add("tile on chip",
                text_of(x["tensor"]) + " " + text_of(x["rows"]) + " x " + text_of(x["cols"]) + " in " +
                    text_of(x["in"]),
                "bytes", x["bytes"]);
    for (const Json& x : f["rows"]) lines.add_all("row", text_of(x["row"]), x, "row");
    lines.add_all("requested bytes so far", "", f["requested_bytes"], "");
    for (const Json& x : f["requested_bytes"]["by_tensor"])
      lines.add("requested bytes so far", text_of(x["tensor"]), text_of(x["direction"]), x["bytes"]);
    lines.add("tiles", "", "done", f["tiles_done"]);
    for (const Json& x : f["outputs"]) {
      lines.add_all("output", text_of(x["tensor"]), x, "tensor");
      if (!x.contains("at")) continue;
      for (const auto& [index, value] : x["at"].items())
        lines.add("output", text_of(x["tensor"]), "largest_error_" + index, value);
    }
  }
  return csv;
}

}  // namespace flashsim::cli

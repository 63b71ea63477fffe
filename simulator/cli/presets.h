// Published figures that flashsim reproduces: each preset runs schedules, prints what they give beside what
// was published, and says what explains a difference.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cpu_reference/problem.h"
#include "simulator/cli/output.h"

namespace flashsim::cli {

struct Figure {
  std::string id;     ///< stable name, for JSON and tests
  std::string group;  ///< heading
  std::string what;
  double value = 0;
  std::string unit;  ///< "GB", "x", ...; may be empty
  int decimals = 2;
  std::optional<double> published;
  std::string published_text;  ///< how it was printed, where the number alone would say too much or little
  std::string row = {};  ///< of a group printed with a row for each of these, and a column for each `what`
};

struct PresetResult {
  std::string title, setting;  ///< setting: what problem and blocks
  std::vector<Figure> figures;
  std::vector<std::string> remarks;  ///< assumptions, and what explains differences
};

struct Preset {
  std::string name, summary;
  PresetResult (*run)();
};

const std::vector<Preset>& presets();

/// Runs the preset of that name; "list" prints all names. Throws UsageError for another.
void run_preset(const std::string& name, Output& out);

/// One tile of all queries and all keys: every operand of a product streams once, as the papers' formulas
/// have it.
inline Tiling whole(const Problem& p) { return {.block_q = p.seqlen_q, .block_k = p.seqlen_k}; }

PresetResult preset_fa1_fig2();
PresetResult preset_fa1_table21();
PresetResult preset_io_theorem();
PresetResult preset_softmax_accesses();
PresetResult preset_explainer();

}  // namespace flashsim::cli

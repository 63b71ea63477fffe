// What `flashsim compare` found, as text, JSON, CSV and a bar chart.
#pragma once

#include <string>
#include <vector>

#include "simulator/cli/output.h"
#include "simulator/compare/compare.h"

namespace flashsim::cli {

struct CompareReport {
  Records source;  ///< where the measurements come from; its records are in `comparisons`
  bool live = false;
  const Gpu* gpu = nullptr;
  std::string card;  ///< which data of the card's L2 the simulation used
  std::vector<ByteComparison> comparisons;
  std::vector<std::string> left_out;  ///< cases without a measurement or a schedule, with the reason
};

/// "measured now on ..." or "recorded on ..., 12 days ago".
std::string provenance(const CompareReport& report);
void print_text(Output& out, const CompareReport& report, bool tensors);
void print_compare_json(Output& out, const CompareReport& report);
/// One line a row of every comparison.
std::string csv(const CompareReport& report);
/// Bars of simulated and measured bytes, a pair for each level and case.
std::string svg(const CompareReport& report);
/// Whether the bars of a suite are met, in words.
std::string text_of(const Summary& summary);

}  // namespace flashsim::cli

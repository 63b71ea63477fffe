// A frame of the stepper as text. Pure functions: the same frame and view give the same characters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simulator/cli/style.h"
#include "simulator/executors/recording.h"

namespace flashsim::cli {

/// What the recording does not say about itself.
struct StepTitle {
  std::string name;       ///< of the algorithm, as --algorithm takes it
  std::string algorithm;  ///< with its paper
  std::string gpu;        ///< whose SRAM it is
};

/// How to draw.
struct StepView {
  int width = 80;
  int height = 0;  ///< lines to keep to where possible; 0: as many as it takes
  bool unicode = true;
  Style style;
  std::vector<int> rows;  ///< rows of Q to show; empty: a few of those the step works on
};

/// The frame in lines of at most view.width columns, each ended by a newline.
std::string render_frame(const Recording& r, const StepTitle& title, std::size_t frame, const StepView& view);

/// In two or three sentences what the step does, for a newcomer.
std::string step_caption(const Recording& r, std::size_t frame);

/// Plain text of a listing or caption with the signs mathematicians use, where the terminal has them.
std::string with_signs(std::string text, bool unicode);

}  // namespace flashsim::cli

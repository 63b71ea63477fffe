// The parts of a frame, each a list of lines of at most `width` columns.
#pragma once

#include <string>
#include <vector>

#include "simulator/cli/step_frame.h"

namespace flashsim::cli {

using Lines = std::vector<std::string>;

/// What every part is drawn from.
struct Scene {
  const Recording& recording;
  const StepTitle& title;
  std::size_t index;
  const StepView& view;
  const Frame& frame() const { return recording.frames[index]; }
  const Style& style() const { return view.style; }
};

/// The map of S: which tiles are done. At most `height` lines; 0: any number.
Lines map_pane(const Scene& s, int width, int height);
/// SRAM in use of capacity, by tile. `brief`: in two or three lines.
Lines sram_pane(const Scene& s, int width, bool brief);
/// The kernel's text, the lines of this step marked. At most `height` lines around them; 0: all.
Lines listing_pane(const Scene& s, int width, int height);
/// m, l and the correction of some rows, before and after; for a gradient LSE and D. At most `most` rows.
Lines rows_pane(const Scene& s, int width, int most);
/// How much of a part there is room for.
enum class Detail : std::uint8_t { line, brief, full };
/// Requested bytes so far beside standard attention's: two bars; explained; with a table by tensor.
Lines bytes_pane(const Scene& s, int width, Detail detail);
/// Largest error against the oracle, and how far gradients have come. `brief`: in one line.
Lines error_pane(const Scene& s, int width, bool brief);

/// `text` cut or padded with spaces to `width` columns; ANSI sequences take none.
std::string fitted(const std::string& text, int width);
/// wrapped(), as lines.
Lines wrapped_lines(const std::string& text, int width);
/// A list on as few lines of `width` columns as hold it; lines end after "," or ";", not within an entry.
Lines list_lines(std::string list, int width);

}  // namespace flashsim::cli

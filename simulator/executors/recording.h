// What the recorder keeps of a run: small frames, one a step, from which any moment can be drawn, backwards
// as well as forwards.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "simulator/executors/sram.h"
#include "simulator/executors/tile_steps.h"

namespace flashsim {

/// A line of a kernel's text: an operation, or the head of a loop around those that follow, indented deeper.
struct ListingLine {
  std::string text;
  int depth = 0;          ///< loops around it
  bool producer = false;  ///< run by the producer of a kernel with roles
  bool loop = false;      ///< the head of a loop, not an operation
};

struct RecordedKernel {
  std::string name;
  std::int64_t blocks = 0;  ///< thread blocks of one K/V head
  bool roles = false;       ///< has a producer and consumers
  std::vector<ListingLine> listing;
};

/// A line that ran in a step, and what it moved to or from memory.
struct ExecutedLine {
  int line = 0;  ///< of the kernel's listing
  int times = 0;
  std::int64_t bytes = 0;
};

/// One number a row of what a step works on.
enum class RowQuantity : std::uint8_t {
  m_before,    ///< running maximum when the step began
  m,           ///< and when it ended
  correction,  ///< exp(m_before - m), which rescales l and O
  l_before,
  l,
  lse,
  d,  ///< D = rowsum(dO o O), backward pass
  count
};

/// Rows first ... first + size - 1, as the kernel counts rows (packed heads interleave).
struct RowValues {
  int first = 0;
  std::vector<float> values;
  /// The value of a row; NaN where it is none of these.
  float of(int row) const {
    const bool held = row >= first && row - first < static_cast<int>(values.size());
    return held ? values[row - first] : std::numeric_limits<float>::quiet_NaN();
  }
};

/// How far an output has come: O, or dQ, dK and dV.
struct OutputState {
  int finished = 0;                ///< rows that nothing will change any more, over the recorded heads
  double error = 0;                ///< largest |stored - oracle| among them; NaN if any is NaN
  int head = 0, row = 0, col = 0;  ///< where; head counts over the batch
  /// Backward pass: largest |sum so far - oracle| of the block this step adds to; negative where it adds
  /// none.
  double distance = -1;
};

/// Tiles on chip when the step needed most.
struct SramState {
  std::vector<LiveTile> tiles;
  std::int64_t sram = 0, registers = 0;  ///< bytes
  friend bool operator==(const SramState& a, const SramState& b);
};

struct Frame {
  StepPosition at;
  int first_row = 0, row_count = 0;  ///< the rows of Q it works on; 0: none
  std::vector<ExecutedLine> lines;
  std::vector<std::int64_t> requested;  ///< bytes since the first frame, by Recording::moves
  int sram = 0;                         ///< index into Recording::sram
  std::array<RowValues, static_cast<int>(RowQuantity::count)> rows;
  std::array<OutputState, 3> outputs;
  int tiles_done = 0;                ///< different tiles of S visited so far, this one included
  std::int64_t standard = 0;         ///< bytes that standard attention requests for these tiles ...
  std::int64_t standard_scores = 0;  ///< ... and what of that is n x n matrices
  const RowValues& of(RowQuantity q) const { return rows[static_cast<int>(q)]; }
};

enum class Direction : std::uint8_t { read, written, reduced };
/// What moved between memory and chip.
struct Move {
  Tensor tensor;
  Direction direction;
};

struct Recording {
  Problem problem;
  Tiling tiling;
  bool backward = false;
  Placement placement = Placement::paper;
  std::int64_t capacity = 0;    ///< bytes of SRAM
  std::string overflow;         ///< paper placement: what exceeded the capacity first
  int head = 0;                 ///< first recorded query head, counted over the batch
  int heads = 1;                ///< recorded query heads: those that share its K/V head
  bool packed = false;          ///< rows of those heads are interleaved (decoding)
  std::vector<Tensor> outputs;  ///< what OutputState describes
  bool has_standard = false;    ///< Frame::standard is meaningful
  std::vector<RecordedKernel> kernels;
  std::vector<Move> moves;  ///< in the order of their first appearance
  std::vector<SramState> sram;
  std::vector<Frame> frames;

  /// Tiles of S of one query head (packed: of all).
  int tile_rows() const;
  int tile_cols() const;
  std::int64_t requested(const Frame& f) const;
  std::int64_t requested(std::size_t frame, std::size_t move) const;
};

/// State of a tile of S in a frame.
enum class TileState : std::uint8_t { not_yet, done, current, hidden };
/// States of the tiles of one query head after `frame`'s step, in the frame's kernel: (tile_rows, tile_cols).
std::vector<TileState> tile_states(const Recording& r, std::size_t frame);

}  // namespace flashsim

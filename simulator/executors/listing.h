// Puts a kernel's text together again from the operations that its thread blocks executed: which lines there
// are, in which order, and which loops they stand in.
#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "simulator/executors/recording.h"

namespace flashsim {

class Listing {
 public:
  void begin_block();
  /// An operation was executed by `role`; gives the line's number, which stays the same.
  /// Tiles filled during a visit of S are told from those filled outside.
  int add(const std::string& text, Op kind, int role, bool in_visit);
  /// The step that just ended visited this part of S.
  void end_step(const StepPosition& at);
  void end_block();

  /// The lines in order with their loops. Lines that always run together (loads, fills, stores) are joined:
  /// line_of[number] says where each number went.
  std::vector<ListingLine> finish(std::vector<int>& line_of) const;

 private:
  struct Line {
    std::string text;
    Op kind;
    bool producer;
    bool in_visit;
  };
  /// How often the lines ran in one thread block, and which tiles it visited, in order. Consumers are alike:
  /// only the first one counts.
  struct Run {
    std::vector<int> times;
    std::vector<std::pair<int, int>> visits;
    std::int64_t total = 0;
  };
  void place_pending(bool at_end);
  std::vector<int> in_order() const;
  std::vector<int> depths(const std::vector<int>& order) const;
  std::string loop_head(const std::vector<int>& order, const std::vector<int>& depth, std::size_t from,
                        int level) const;
  bool rows_inside() const;
  int outer_steps() const;
  int times(int line) const;

  std::vector<Line> lines_;
  std::map<std::tuple<bool, bool, std::string>, int> number_;
  std::array<std::vector<int>, 2> order_;  ///< line numbers from top to bottom: consumers', producer's
  std::vector<int> pending_;               ///< new lines whose place the next known line will tell
  std::ptrdiff_t at_ = -1;                 ///< place of the last known line
  int role_ = 1;
  Run now_, longest_;
};

}  // namespace flashsim

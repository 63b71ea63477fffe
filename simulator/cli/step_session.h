// Stepping by keys.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulator/cli/step_frame.h"
#include "simulator/cli/terminal.h"

namespace flashsim::cli {

/// One pass that can be stepped through.
struct StepPass {
  Recording recording;
  StepTitle title;
};

/// Where the session stands. Keys change it and nothing else; it draws itself as text.
class StepSession {
 public:
  /// `other` gives the other pass (backward for forward), or throws with the reason why there is none.
  StepSession(StepPass pass, std::size_t frame, std::vector<int> rows, std::function<StepPass()> other);

  /// False: quit.
  bool press(KeyPress k);
  std::string screen(const TerminalSize& size, const Style& style, bool unicode) const;

 private:
  enum class Asking : std::uint8_t { nothing, tile, step, rows, help };
  void answer();
  void jump(const std::string& text);
  void choose_rows(const std::string& text);
  void toggle();
  void move(std::ptrdiff_t by);
  std::string footer(int columns, const Style& style) const;

  StepPass pass_, other_;
  bool has_other_ = false;
  std::function<StepPass()> make_other_;
  std::size_t frame_, other_frame_ = 0;
  std::vector<int> rows_;
  Asking asking_ = Asking::nothing;
  std::string typed_, message_;
};

/// The step that visits tile (i, j), searched onwards from `from` and then from the start; frames.size() if
/// none does.
std::size_t step_of_tile(const Recording& r, int i, int j, std::size_t from);

/// "3", "0,17" or "10-13" as rows below `count`. Throws UsageError.
std::vector<int> parse_rows(const std::string& text, int count);
/// "i,j". Throws UsageError where r has no such tile.
std::pair<int, int> parse_tile(const std::string& text, const Recording& r);

/// Runs the session on a terminal until the student quits.
void run_session(StepSession session, const Style& style, bool unicode);

}  // namespace flashsim::cli

// A terminal in the hands of an interactive command: single keys, a screen of its own, and everything as it
// was afterwards, whatever ends the command.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flashsim::cli {

enum class Key : std::uint8_t {
  character,  ///< KeyPress::character holds it
  enter,
  backspace,
  escape,
  left,
  right,
  up,
  down,
  home,
  end,
  page_up,
  page_down,
  resized,  ///< no key: the window has another size
  closed    ///< nobody is typing any more
};

struct KeyPress {
  Key key = Key::character;
  char character = 0;  ///< ASCII; 0 for any other
};

struct TerminalSize {
  int columns = 80, rows = 24;
};

/// Takes the terminal over (alternate screen, no echo, no line buffer, hidden cursor) and gives it back when
/// destroyed, on Ctrl-C, on a stop (Ctrl-Z) and on signals that end the process. At most one exists at a
/// time.
class Terminal {
 public:
  /// Throws std::runtime_error where the descriptors are no terminal.
  Terminal(int input, int output);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  TerminalSize size() const;
  /// Waits for the next key or change of size.
  KeyPress read_key();
  /// Shows `text` from the top left corner and nothing else. Lines beyond the last row are left out.
  void show(std::string_view text);

 private:
  int next_byte(int timeout_ms);
  KeyPress escape_sequence();

  int input_, output_;
};

/// The locale's encoding, as the environment states it, can show more than ASCII.
bool locale_is_utf8();

}  // namespace flashsim::cli

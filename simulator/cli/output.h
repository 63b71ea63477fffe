// Where a command's data and messages go: data to the standard output or, all at once, to a file; messages to
// the standard error.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "simulator/cli/style.h"

namespace flashsim::cli {

/// The options every command has.
struct OutputOptions {
  bool json = false;
  bool quiet = false;  ///< no messages but errors
  Color color = Color::automatic;
  std::string file;  ///< empty or "-": standard output
};

/// A file that appears under its name when everything is in it, or not at all. Devices and pipes are written
/// directly.
class AtomicFile {
 public:
  /// Throws InputError where the file could not be written later.
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes what was not committed.
  ~AtomicFile();
  void write(std::string_view data);
  void commit();

 private:
  std::string path_, temporary_;
  int fd_ = -1;
};

class Output {
 public:
  explicit Output(OutputOptions options);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  bool json() const { return options_.json; }
  bool quiet() const { return options_.quiet; }
  /// Columns to fill.
  int width() const { return width_; }
  const Style& style() const { return style_; }
  /// A person sits at both ends: standard input and output are terminals, and text is wanted.
  bool interactive() const;

  /// Data. Throws OutputClosed where the reader has gone, InputError where the disk is full.
  void print(std::string_view text);
  /// A message for a person, on the standard error; left out with --quiet.
  void note(std::string_view message) const;
  /// Puts the file in place. Called once, after a command that did not throw.
  void finish();

 private:
  OutputOptions options_;
  Style style_;
  int width_;
  std::unique_ptr<AtomicFile> file_;
};

/// Ctrl-C ends the process with code 130, after removing a file that is being written and calling `restore`
/// (which may only do what a signal handler may).
void handle_interrupts();
void on_interrupt(void (*restore)());

}  // namespace flashsim::cli

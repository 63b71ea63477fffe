// The executable: runs the command and turns errors into a message and an exit code.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <new>

#include "simulator/cli/command.h"

int main(int argc, char** argv) {
  using namespace flashsim::cli;
  handle_interrupts();
  try {
    return static_cast<int>(run(commands(), argc, argv));
  } catch (const OutputClosed&) {
    return 0;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "flashsim: error: there is not enough memory for this; choose a smaller problem\n");
    return static_cast<int>(ExitCode::input);
  } catch (const std::exception& error) {
    const Style style(wants_color(Color::automatic, STDERR_FILENO));
    fmt::print(stderr, "flashsim: {} {}\n", style.red("error:"), error.what());
    return static_cast<int>(exit_code_of(error));
  }
}

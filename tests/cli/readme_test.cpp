// Every command in README.md runs, and prints what README.md shows.
//
// In a block of README.md, a line "$ ./run.sh ARGS" is run as flashsim ARGS at 80 columns; the lines below
// it, up to the next command or the block's end, are its output. "..." stands for any lines. A line
// "./run.sh ARGS" without "$" is run for its exit code only, in a folder of its own, as it may write files.
#include "tests/cli/run_flashsim.h"

using namespace flashsim::testing;

namespace {

struct Example {
  std::string command;
  std::vector<std::string> shown;
};

std::vector<Example> examples_in_readme() {
  std::vector<Example> examples;
  bool inside = false, output = false;
  for (const std::string& line : lines_of(contents(FLASHSIM_SOURCE_DIR "/README.md"))) {
    if (line.rfind("```", 0) == 0) {
      inside = !inside;
      output = false;
    } else if (inside && line.rfind("$ ./run.sh ", 0) == 0) {
      examples.push_back({line.substr(std::string("$ ./run.sh ").size()), {}});
      output = true;
    } else if (inside && output) {
      examples.back().shown.push_back(line);
    }
  }
  return examples;
}

std::vector<std::string> without_numbers(std::vector<std::string> lines) {
  for (std::string& line : lines) {
    line.erase(std::min(line.find_first_of("0123456789"), line.size()));
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

/// Whether `shown`, in which "..." is any number of lines, is `printed`.
bool matches(const std::vector<std::string>& shown, std::size_t i, const std::vector<std::string>& printed,
             std::size_t j) {
  if (i == shown.size()) return j == printed.size();
  if (shown[i] == "...") {
    for (std::size_t skip = j; skip <= printed.size(); ++skip)
      if (matches(shown, i + 1, printed, skip)) return true;
    return false;
  }
  return j < printed.size() && shown[i] == printed[j] && matches(shown, i + 1, printed, j + 1);
}

}  // namespace

TEST_CASE("README.md shows what its commands print") {
  const std::vector<Example> examples = examples_in_readme();
  REQUIRE(examples.size() >= 4);
  for (const Example& e : examples) {
    CAPTURE(e.command);
    const Result r = flashsim_run(e.command, "COLUMNS=80 LC_ALL=C.UTF-8");
    if (r.code == 4) {
      MESSAGE("needs a GPU: ", e.command);
      continue;
    }
    CHECK_MESSAGE(r.code == 0, r.err);
    if (e.shown.empty()) continue;
    // Numbers of fp32 sums may differ in the last digit shown on another processor.
    const bool numbers = e.command.rfind("check", 0) != 0 && e.command.rfind("step", 0) != 0;
    const std::vector<std::string> shown = numbers ? e.shown : without_numbers(e.shown);
    const std::vector<std::string> printed = numbers ? lines_of(r.out) : without_numbers(lines_of(r.out));
    CHECK_MESSAGE(matches(shown, 0, printed, 0), "README.md differs; printed now:\n", r.out);
  }
}

TEST_CASE("commands that README.md names without their output run too") {
  // What needs a GPU ends with 4 where there is none; where there is one it takes minutes, and is tested
  // elsewhere.
  const bool gpu = flashsim_run("doctor").code != 4;
  int commands = 0;
  bool inside = false;
  for (std::string line : lines_of(contents(FLASHSIM_SOURCE_DIR "/README.md"))) {
    if (line.rfind("```", 0) == 0) inside = !inside;
    if (!inside || line.rfind("./run.sh ", 0) != 0 || line.rfind("./run.sh ARGS", 0) == 0) continue;
    ++commands;
    line = line.substr(std::string("./run.sh ").size());
    line.erase(std::min(line.find(" #"), line.size()));
    const Folder folder;
    CAPTURE(line);
    if (gpu && (contains(line, "--gpu") || contains(line, "--live") || contains(line, "measure") ||
                contains(line, "bench"))) {
      MESSAGE("needs a GPU and minutes: ", line);
      continue;
    }
    const Result r = shell("cd " + (folder / "") + " && flashsim " + line);
    CHECK_MESSAGE((r.code == 0 || (!gpu && r.code == 4)), r.err);
  }
  CHECK(commands >= 6);
}

TEST_CASE("a schedule is as short as README.md says") {
  int schedules = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FLASHSIM_SOURCE_DIR "/simulator/schedules")) {
    if (entry.path().extension() != ".cpp" || entry.path().filename() == "schedules.cpp")
      continue;  // their list
    ++schedules;
    CHECK_MESSAGE(lines_of(contents(entry.path())).size() <= 80, entry.path());
  }
  CHECK(schedules >= 12);
}

TEST_CASE("every command has an example in README.md") {
  const std::string readme = contents(FLASHSIM_SOURCE_DIR "/README.md");
  bool inside = false;
  for (const std::string& line : lines_of(flashsim_run("--help").out)) {
    if (line.empty()) inside = false;
    if (inside && line[2] != ' ') {
      const std::string name = line.substr(2, line.find(' ', 2) - 2);
      CHECK_MESSAGE(contains(readme, "./run.sh " + name), name);
    }
    if (line == "Commands") inside = true;
  }
}

// Students' folders for tests.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "lessons/grader/grade.h"

namespace flashsim::testing {
namespace fs = std::filesystem;

/// A folder that is removed with this object.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "flashsim-test-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline fs::path key_of(const lessons::Exercise& e) {
  return fs::path(FLASHSIM_SOURCE_DIR) / "lessons/keys" / e.file();
}

/// Limits that let a bad submission fail quickly.
inline lessons::GradeOptions quick(std::uint64_t seed = 0) {
  lessons::GradeOptions o;
  o.seed = seed;
  o.limits.run_seconds = 5;
  o.limits.operations = 200'000;
  return o;
}

/// Grades `text` as the solution of an exercise.
inline lessons::ExerciseGrade graded(int exercise, const std::string& text,
                                     const lessons::GradeOptions& options = quick()) {
  const Folder folder;
  const lessons::Exercise& e = *lessons::find_exercise(exercise);
  std::ofstream(folder.path() / e.file(), std::ios::binary) << text;
  return lessons::grade_exercise(e, folder.path(), options);
}

/// All that a grade says, for a failing test's message and for searching.
inline std::string all_text(const lessons::ExerciseGrade& g) {
  std::string s = g.problem + "\n" + g.mistake + "\n" + g.hint;
  for (const lessons::CheckGrade& c : g.checks)
    s +=
        "\n" + c.name + ": " + std::to_string(c.earned) + " of " + std::to_string(c.points) + " " + c.message;
  return s;
}

/// `text` with `from`, which must be in it, replaced.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, "not in the text: ", from);
  return text.replace(at, from.size(), to);
}

}  // namespace flashsim::testing

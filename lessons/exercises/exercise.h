// The exercises: what a student gets, and where the student's work is found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace flashsim::lessons {

/// What the student's file is.
enum class Kind : std::uint8_t {
  schedule,        ///< defines schedule(Device&, ...): issues operations
  softmax_update,  ///< answers calls: one step of online softmax
  tiling_choice,   ///< answers calls: a tiling for a problem
  cuda             ///< a kernel; needs nvcc to compile and a GPU to check
};

struct Exercise {
  int number = 0;
  std::string_view name;   ///< "03_tiled_forward": of its folder and files
  std::string_view title;  ///< one line
  Kind kind = Kind::schedule;
  bool has_steps = false;  ///< linked with lessons/exercises/given/steps.h

  /// "03_tiled_forward.cpp" or ".cu": the file the student completes.
  std::string file() const;
  std::string text_file() const { return std::string(name) + ".md"; }
  std::string_view skeleton() const;
  std::string_view text() const;
  /// From nudge to near-answer.
  std::vector<std::string> hints() const;
};

const std::vector<Exercise>& exercises();
/// Null where there is none of that number.
const Exercise* find_exercise(int number);

/// A folder or file of a student's is not as it should be.
class WorkspaceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Writes the skeleton and the text of an exercise into `folder`, which is made where missing. Throws
/// WorkspaceError where the student's file is there already.
void start_exercise(const Exercise& e, const std::filesystem::path& folder);

/// Puts the skeleton back; what was there is kept beside it. Returns the name it is kept under, empty where
/// there was nothing.
std::string reset_exercise(const Exercise& e, const std::filesystem::path& folder);

/// The exercises whose file lies in `folder`, in order. Throws WorkspaceError where it is not a folder.
std::vector<const Exercise*> exercises_in(const std::filesystem::path& folder);

/// The next hint: the one after the last that was taken in this folder (which is remembered there), or again
/// the last. Counted from 0.
int take_hint(const Exercise& e, const std::filesystem::path& folder);

/// What students get: every skeleton, text and the headers they write against. Made by this list, never by
/// leaving out: a file that nobody named is not in it.
struct BundleFile {
  std::string path;  ///< in the bundle
  std::string text;
};
std::vector<BundleFile> bundle_files();
/// Writes them as a folder, which must not exist, or, where the name ends with .tar or .tar.gz, as an archive
/// with tar (the same bytes for the same contents). Throws WorkspaceError.
void write_bundle(const std::filesystem::path& to);

}  // namespace flashsim::lessons

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "lessons/exercises/embedded.h"
#include "lessons/exercises/exercise.h"
#include "simulator/user_schedule/subprocess.h"

namespace flashsim::lessons {
namespace fs = std::filesystem;
namespace {

void write(const fs::path& to, std::string_view text) {
  std::error_code error;
  if (!to.parent_path().empty()) fs::create_directories(to.parent_path(), error);
  std::ofstream out(to, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw WorkspaceError("cannot write " + to.string() + "; is there room, and may you write there?");
}

bool ends_with(const std::string& s, std::string_view end) {
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

/// "number hints" a line: how many hints of an exercise were taken.
fs::path hints_taken(const fs::path& folder) { return folder / ".flashsim-hints"; }

}  // namespace

void start_exercise(const Exercise& e, const fs::path& folder) {
  const fs::path file = folder / e.file();
  if (fs::exists(fs::symlink_status(file)))
    throw WorkspaceError(file.string() +
                         " is there already; go on with it, or put the skeleton back with flashsim "
                         "exercise reset");
  write(file, e.skeleton());
  write(folder / e.text_file(), e.text());
}

std::string reset_exercise(const Exercise& e, const fs::path& folder) {
  const fs::path file = folder / e.file();
  std::string kept;
  if (fs::exists(fs::symlink_status(file))) {
    int n = 1;
    do kept = e.file() + ".before-reset-" + std::to_string(n++);
    while (fs::exists(fs::symlink_status(folder / kept)));
    std::error_code error;
    fs::rename(file, folder / kept, error);
    if (error) throw WorkspaceError("cannot rename " + file.string() + ": " + error.message());
  }
  start_exercise(e, folder);
  return kept;
}

std::vector<const Exercise*> exercises_in(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw WorkspaceError(folder.string() + " is not a folder; begin one with flashsim exercise start 1 " +
                         folder.string());
  std::vector<const Exercise*> found;
  for (const Exercise& e : exercises())
    if (fs::exists(fs::symlink_status(folder / e.file()))) found.push_back(&e);
  return found;
}

int take_hint(const Exercise& e, const fs::path& folder) {
  std::vector<int> taken(exercises().size() + 1, 0);
  std::ifstream in(hints_taken(folder));
  for (int number = 0, count = 0; in >> number >> count;)
    if (number >= 1 && number < static_cast<int>(taken.size())) taken[number] = std::max(0, count);
  const int last = static_cast<int>(e.hints().size()) - 1, now = std::min(taken[e.number], last);
  taken[e.number] = now + 1;
  std::string text;
  for (std::size_t i = 1; i < taken.size(); ++i)
    if (taken[i] > 0) text += std::to_string(i) + " " + std::to_string(taken[i]) + "\n";
  write(hints_taken(folder), text);
  return now;
}

std::vector<BundleFile> bundle_files() {
  std::vector<BundleFile> all;
  for (const Exercise& e : exercises()) {
    all.push_back({e.file(), std::string(e.skeleton())});
    all.push_back({e.text_file(), std::string(e.text())});
  }
  // What the build put on the list (lessons/CMakeLists.txt) under "bundle/".
  constexpr std::string_view listed = "bundle/", front_page = "bundle/lessons/exercises/bundle.md";
  for (const EmbeddedFile& f : embedded_files()) {
    if (f.path.substr(0, listed.size()) != listed) continue;
    const std::string path(f.path.substr(listed.size()));
    all.push_back({f.path == front_page ? "README.md" : "read/" + path, std::string(f.text)});
  }
  return all;
}

void write_bundle(const fs::path& to) {
  const std::string name = to.filename().string();
  const bool plain_tar = ends_with(name, ".tar"), zipped = ends_with(name, ".tar.gz");
  if (fs::exists(fs::symlink_status(to)))
    throw WorkspaceError(to.string() + " exists; choose a name that is free");
  if (!plain_tar && !zipped) {
    for (const BundleFile& f : bundle_files()) write(to / f.path, f.text);
    return;
  }
  std::string pattern = (fs::temp_directory_path() / "flashsim-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw WorkspaceError("cannot make a folder in " + fs::temp_directory_path().string());
  const fs::path folder = pattern;
  try {
    for (const BundleFile& f : bundle_files()) write(folder / "exercises" / f.path, f.text);
    const fs::path absolute = fs::absolute(to);
    ProcessLimits limits;
    limits.file_bytes = 64 << 20;
    const ProcessEnd end =
        Process({"tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner",
                 "--mode=u=rwX,go=rX", zipped ? "-czf" : "-cf", absolute.string(), "exercises"},
                folder, limits)
            .wait(60);
    if (end.exit_code != 0) throw WorkspaceError("tar " + end.describe() + ": " + end.output);
  } catch (const std::system_error& e) {
    fs::remove_all(folder);
    throw WorkspaceError(std::string(e.what()) + "; give a folder's name instead of a .tar");
  } catch (...) {
    fs::remove_all(folder);
    throw;
  }
  fs::remove_all(folder);
}

}  // namespace flashsim::lessons

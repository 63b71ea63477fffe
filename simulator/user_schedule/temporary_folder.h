// A folder for the time of a compilation or a run.
#pragma once

#include <filesystem>

namespace flashsim {

/// A new folder in the system's place for temporary files; removed with this object.
class TemporaryFolder {
 public:
  /// Throws UserScheduleError where none can be made.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace flashsim

#include "simulator/user_schedule/temporary_folder.h"

#include <cstdlib>
#include <string>
#include <system_error>

#include "simulator/user_schedule/user_program.h"

namespace flashsim {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "flashsim-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw UserScheduleError("cannot make a folder in " + fs::temp_directory_path().string() +
                            "; set TMPDIR to a place that can be written");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace flashsim

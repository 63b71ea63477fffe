// Runs the real executable as a user would, and looks at what comes out.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace flashsim::testing {

using Json = nlohmann::ordered_json;

/// A folder of its own, removed in the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "flashsim-cli-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  int files() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Result {
  int code = -1;  ///< exit code; 128 + signal where one ended it
  std::string out, err;
};

/// Runs a shell command in which `flashsim` is the executable under test, from the source folder.
/// `environment` goes before it, as in "COLUMNS=200"; NO_COLOR and COLUMNS are unset otherwise.
inline Result shell(const std::string& command, const std::string& environment = "") {
  const Folder folder;
  const std::string script = "cd '" FLASHSIM_SOURCE_DIR "' && unset NO_COLOR COLUMNS; export TERM=xterm " +
                             environment + "; flashsim() { '" FLASHSIM_EXECUTABLE "' \"$@\"; }; { " +
                             command + "\n} >" + (folder / "out") + " 2>" + (folder / "err") + " </dev/null";
  std::ofstream(folder / "script") << script;
  const int status = std::system(("bash " + (folder / "script")).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(folder / "out"),
          contents(folder / "err")};
}

inline Result flashsim_run(const std::string& arguments, const std::string& environment = "") {
  return shell("flashsim " + arguments, environment);
}

/// The JSON of a command that must succeed and say nothing else.
inline Json json_of(const std::string& arguments) {
  const Result r = flashsim_run(arguments + " --json");
  CAPTURE(arguments);
  REQUIRE_MESSAGE(r.code == 0, r.err);
  CHECK(r.err.empty());
  Json j = Json::parse(r.out);
  CHECK(j.begin().key() == "schema_version");
  CHECK(j.at("schema_version") == 1);
  CHECK(j.at("flashsim_version").is_string());
  return j;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace flashsim::testing

#include "simulator/user_schedule/user_schedule.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sstream>
#include <system_error>

#include "simulator/user_schedule/subprocess.h"
#include "simulator/user_schedule/wire.h"

namespace flashsim {
namespace fs = std::filesystem;
namespace {

/// A folder that is removed with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "flashsim-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw UserScheduleError("cannot make a folder in " + fs::temp_directory_path().string() +
                              "; set TMPDIR to a place that can be written");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    read_end = ends[0];
    write_end = ends[1];
    fcntl(read_end, F_SETFD, FD_CLOEXEC);
    fcntl(write_end, F_SETPIPE_SZ, 1 << 20);  // fewer switches between the two processes
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close(read_end);
    close_write_end();
  }
  void close_write_end() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

struct Request {  // as in driver.cpp
  Problem problem;
  Tiling tiling;
  Heads heads;
};

std::string hexadecimal(const Request& r) {
  static constexpr char digits[] = "0123456789abcdef";
  const auto* bytes = reinterpret_cast<const unsigned char*>(&r);
  std::string s;
  for (std::size_t i = 0; i < sizeof r; ++i) {
    s += digits[bytes[i] >> 4];
    s += digits[bytes[i] & 15];
  }
  return s;
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (++count > 30) return out + "\n  ...";
    out += "\n  " + line;
  }
  return out;
}

}  // namespace

struct UserSchedule::State {
  TemporaryFolder folder;
  fs::path source, executable;
  UserLimits limits;
};

Toolchain Toolchain::found() {
  Toolchain t;
  t.compiler = FLASHSIM_CXX_COMPILER;
  t.flags = FLASHSIM_USER_FLAGS;
  if (!fs::exists(t.compiler)) t.compiler = "c++";
  std::error_code ignored;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
  const bool installed = fs::exists(prefix / "include" / "flashsim" / "simulator");
  t.include = installed ? prefix / "include" / "flashsim" : fs::path(FLASHSIM_SOURCE_DIR);
  for (const char* library :
       {FLASHSIM_DRIVER_LIBRARY, FLASHSIM_SIMULATOR_LIBRARY, FLASHSIM_REFERENCE_LIBRARY})
    t.libraries.push_back(installed ? prefix / FLASHSIM_LIBDIR / fs::path(library).filename()
                                    : fs::path(library));
  return t;
}

const fs::path& UserSchedule::executable() const { return state_->executable; }

UserSchedule UserSchedule::compile(const fs::path& file, const UserLimits& limits, const Toolchain& tools) {
  if (!fs::is_regular_file(file))
    throw UserScheduleError(file.string() +
                            " is not a file; give a C++ file that defines schedule(Device&, const "
                            "Problem&, const Tiling&)");
  auto state = std::make_shared<State>();
  state->source = fs::absolute(file);
  state->limits = limits;
  state->executable = state->folder.path() / "schedule";
  std::vector<std::string> argv = {tools.compiler, "-std=c++20", "-O1"};
  std::istringstream flags(tools.flags);
  for (std::string flag; flags >> flag;) argv.push_back(flag);
  argv.insert(argv.end(), {"-I" + tools.include.string(), state->source.string()});
  for (const fs::path& library : tools.libraries) argv.push_back(library.string());
  argv.insert(argv.end(), {"-o", state->executable.string()});
  ProcessEnd end;
  try {
    ProcessLimits compiler;
    compiler.processor_seconds = limits.compile_seconds;
    compiler.file_bytes = 256 << 20;
    end = Process(argv, state->folder.path(), compiler).wait(limits.compile_seconds);
  } catch (const std::system_error& e) {
    throw UserScheduleError(std::string(e.what()) +
                            "; a C++20 compiler is needed to run a schedule of your own");
  }
  if (end.exit_code != 0)
    throw UserScheduleError(file.string() + " does not compile; the compiler " + end.describe() + ":" +
                            indented(end.output));
  return UserSchedule(std::move(state));
}

Program UserSchedule::program(const Problem& p, const Tiling& t) const {
  return [state = state_, p, t](Executor& executor, Heads heads) {
    const std::string name = state->source.filename().string();
    Pipe pipe;
    ProcessLimits limits;
    limits.processor_seconds = state->limits.run_seconds;
    limits.memory_bytes = state->limits.memory_bytes;
    Process process({state->executable.string(), std::to_string(pipe.write_end), hexadecimal({p, t, heads})},
                    state->folder.path(), limits, pipe.write_end);
    pipe.close_write_end();
    try {
      replay(pipe.read_end, p, executor,
             {.operations = state->limits.operations, .seconds = state->limits.run_seconds});
    } catch (const WireTimeout&) {
      throw UserScheduleError(name + " ran longer than " +
                              std::to_string(state->limits.run_seconds).substr(0, 4) +
                              " s; does a loop not end?");
    } catch (const WireClosed& e) {
      const ProcessEnd end = process.wait(1);
      if (end.signal == SIGXCPU || end.signal == SIGKILL)
        throw UserScheduleError(name + " used up its processor time or memory; does a loop not end?");
      throw UserScheduleError(name + ": " + e.what() + "; its process " + end.describe() +
                              indented(end.output));
    } catch (const WireError& e) {
      throw UserScheduleError(name + ": " + e.what());
    }
  };
}

}  // namespace flashsim

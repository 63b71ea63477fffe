#include "simulator/user_schedule/user_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "simulator/user_schedule/temporary_folder.h"

namespace flashsim {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t largest_source = 256 << 10;

std::string first_lines(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (++count > 30) return out + "\n  ...";
    out += "\n  " + line;
  }
  return out;
}

/// Copies a submitted file without following a link that stands in its place.
void copy_source(const fs::path& from, const fs::path& to) {
  const int fd = open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  struct stat s;
  const bool plain = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size <= largest_source;
  std::string text(plain ? static_cast<std::size_t>(s.st_size) : 0, '\0');
  const bool whole = plain && read(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  if (!whole)
    throw UserScheduleError(from.filename().string() + " is not a plain file of at most " +
                            std::to_string(largest_source >> 10) +
                            " KiB (a link is not followed); put the source text itself there");
  std::ofstream(to, std::ios::binary) << text;
}

std::vector<fs::path> system_folders(const std::string& compiler) {
  std::vector<fs::path> all = {
      "/usr",      "/lib",      "/lib64",      "/bin", "/opt", "/etc/ld.so.cache", "/etc/alternatives",
      "/dev/null", "/dev/zero", "/dev/urandom"};
  if (const fs::path c = compiler; c.is_absolute()) all.push_back(c.parent_path());
  return all;
}

}  // namespace

struct UserProgram::State {
  TemporaryFolder folder;
  std::string name;
  fs::path source, executable;
  UserLimits limits;
  bool sanitized = false;
  ProcessLimits process_limits;            ///< but for time and memory, which `limits` has
  std::optional<Confinement> confinement;  ///< of its processes
};

std::string UserLimits::run_time() const {
  std::ostringstream text;
  text << run_seconds << " s";
  return text.str();
}

Toolchain Toolchain::found() {
  Toolchain t;
  t.compiler = FLASHSIM_CXX_COMPILER;
  t.flags = FLASHSIM_USER_FLAGS;
  t.sanitized = !t.flags.empty();
  t.language = {"-std=c++20", "-O1"};
  t.piped = {"-pipe"};
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

const fs::path& UserProgram::executable() const { return state_->executable; }
const std::string& UserProgram::name() const { return state_->name; }
const UserLimits& UserProgram::limits() const { return state_->limits; }

UserProgram UserProgram::compile(const fs::path& file, const UserLimits& limits, const Toolchain& tools) {
  if (!fs::is_regular_file(file)) throw UserScheduleError(file.string() + " is not a file; give a C++ file");
  auto state = std::make_shared<State>();
  state->name = file.filename().string();
  state->source = fs::absolute(file);
  state->limits = limits;
  state->sanitized = tools.sanitized;
  state->executable = state->folder.path() / "program";
  if (tools.uses_gpu) {  // CUDA's driver opens devices and libraries by the dozen
    state->process_limits.open_files = 1024;
    state->process_limits.file_bytes = 64 << 20;
    state->process_limits.library_folder = tools.driver_folder;
  }
  std::optional<Confinement> confined;
  if (tools.confined_to) {
    copy_source(file, state->folder.path() / state->name);
    state->source = state->name;  // as the compiler's messages name it
    confined =
        Confinement{system_folders(tools.compiler), {state->folder.path(), "/dev/null"}, Processes::any};
    state->confinement = Confinement{system_folders(tools.compiler), {"/dev/null"}, Processes::none};
    state->confinement->readable.push_back(state->executable);
    if (tools.uses_gpu) {
      state->confinement->processes = Processes::threads;
      if (!tools.driver_folder.empty()) state->confinement->readable.push_back(tools.driver_folder);
      state->confinement->own_proc = true;
      for (const char* path :
           {"/proc/cpuinfo", "/proc/devices", "/proc/driver", "/proc/filesystems", "/proc/meminfo",
            "/proc/modules", "/proc/stat", "/proc/sys", "/proc/version", "/sys", "/etc"})
        state->confinement->readable.emplace_back(path);
      if (tools.all_files) state->confinement->readable = state->confinement->writable = {"/"};
      state->confinement->writable.emplace_back("/dev");
    }
    for (const auto& readable : {*tools.confined_to, tools.libraries})
      confined->readable.insert(confined->readable.end(), readable.begin(), readable.end());
  }
  std::vector<std::string> command = {tools.compiler};
  command.insert(command.end(), tools.language.begin(), tools.language.end());
  std::istringstream flags(tools.flags);
  for (std::string flag; flags >> flag;) command.push_back(flag);
  command.push_back("-I" + tools.include.string());
  const auto run = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = command;
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    ProcessEnd end;
    try {
      ProcessLimits compiler;
      compiler.processor_seconds = limits.compile_seconds;
      compiler.file_bytes = 256 << 20;
      end = Process(argv, state->folder.path(), compiler, -1, confined ? &*confined : nullptr)
                .wait(limits.compile_seconds);
    } catch (const std::system_error& e) {
      throw UserScheduleError(std::string(e.what()) +
                              "; a C++20 compiler is needed to run a schedule of your own");
    }
    if (end.exit_code != 0)
      throw UserCompileError((confined ? state->name : file.string()) + " does not compile; the compiler " +
                             end.describe() + ":" + first_lines(end.output));
  };
  // In two steps and with a pipe to the assembler: messages then name no file with a random name, and the
  // same mistake gives the same words.
  const std::string object = fs::path(state->name).stem().string() + ".o";
  std::vector<std::string> link = {object};
  for (const fs::path& library : tools.libraries) link.push_back(library.string());
  link.insert(link.end(), {"-o", state->executable.string()});
  std::vector<std::string> compile = tools.piped;
  compile.insert(compile.end(), {"-c", state->source.string(), "-o", object});
  run(compile);
  run(link);
  return UserProgram(std::move(state));
}

Process UserProgram::start(int inherited_fd, const std::string& argument) const {
  ProcessLimits limits = state_->process_limits;
  limits.processor_seconds = state_->limits.run_seconds;
  limits.memory_bytes = state_->sanitized ? 0 : state_->limits.memory_bytes;
  return Process({state_->executable.string(), std::to_string(inherited_fd), argument}, state_->folder.path(),
                 limits, inherited_fd, state_->confinement ? &*state_->confinement : nullptr);
}

UserScheduleError UserProgram::broken(Process& process, const std::string& what) const {
  const ProcessEnd end = process.wait(1);
  if (end.signal == SIGXCPU || end.signal == SIGKILL)
    return UserScheduleError(name() + " used up its " + limits().run_time() +
                             " of processor time or its memory; does a loop not end?");
  return UserScheduleError(name() + ": " + what + "; its process " + end.describe() +
                           first_lines(end.output));
}

}  // namespace flashsim

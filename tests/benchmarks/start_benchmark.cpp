// How long a user waits for `flashsim --help`, `--version` and a small answer: processes from start to end.
// Help within 30 ms feels immediate. Compare a build with CUDA with one without: they must not differ, since
// CUDA's libraries are opened by the commands that use them.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <string>

extern char** environ;

namespace {

void run(benchmark::State& state, const std::string& argument) {
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
  std::string program = FLASHSIM_EXECUTABLE, word = argument;
  char* const arguments[] = {program.data(), word.data(), nullptr};
  for (auto _ : state) {
    pid_t process = 0;
    int status = 0;
    if (posix_spawn(&process, program.c_str(), &quiet, nullptr, arguments, environ) != 0 ||
        waitpid(process, &status, 0) != process || status != 0) {
      state.SkipWithError("the program does not run");
      break;
    }
  }
  posix_spawn_file_actions_destroy(&quiet);
}
BENCHMARK_CAPTURE(run, help, "--help")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, version, "--version")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, gpus, "gpus")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

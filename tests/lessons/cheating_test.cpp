// Ways to get points without the work, or to do harm: each must earn nothing (or only what is honestly
// right).
#include <signal.h>

#include <cstdlib>

#include "lessons/exercises/exercise.h"
#include "simulator/user_schedule/confinement.h"
#include "tests/lessons/submissions.h"

using namespace flashsim;
using namespace flashsim::testing;

namespace {

const std::string source = FLASHSIM_SOURCE_DIR;

/// A file for exercise 3 with `before` at its top and `body` in schedule().
std::string file_with(const std::string& body, const std::string& before = "") {
  return before +
         "\n#include \"lessons/exercises/given/schedule.h\"\n#include <cstdio>\n#include <cstdlib>\n#include "
         "<unistd.h>\n#include <vector>\n"
         "void schedule(Device& gpu, const Problem& p, const Tiling& t) {\n  static_cast<void>(p), "
         "static_cast<void>(t), static_cast<void>(gpu);\n" +
         body + "\n}\n";
}
std::string kernel_with(const std::string& body) {
  return file_with("gpu.kernel(\"k\", row_blocks(p, t), [&](Machine& sm, Block i) {\n" + body + "\n});");
}

/// Grades it, and gives the messages where nothing was earned.
std::string refused(const std::string& text, int exercise = 3, double seconds = 5) {
  lessons::GradeOptions options = quick();
  options.limits.run_seconds = seconds;
  const lessons::ExerciseGrade g = graded(exercise, text, options);
  const std::string all = all_text(g);
  CHECK_MESSAGE(g.earned() == 0, all);
  CHECK_FALSE(g.passed());
  return all;
}
bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE("text was: ", text);
  return false;
}

}  // namespace

TEST_CASE("O filled with a constant, without computing") {
  CHECK(contains(refused(kernel_with("Tile o = sm.fill(O, i, 0.1); sm.store(O, i, o); "
                                     "sm.store(LSE, i, sm.fill(LSE, i, 1));")),
                 "O is wrong"));
}

TEST_CASE("O filled with NaN or infinity, which some comparisons let pass") {
  CHECK(contains(refused(kernel_with(
                     "Tile o = sm.fill(O, i, infinity), minus = sm.fill(O, i, -infinity); "
                     "sm.add(o, minus); sm.store(O, i, o); sm.store(LSE, i, sm.fill(LSE, i, infinity));")),
                 "it is NaN"));
}

TEST_CASE("nothing issued at all") { CHECK(contains(refused(file_with("")), "O is never stored")); }

TEST_CASE("the result is loaded before anything wrote it") {
  CHECK(
      contains(refused(kernel_with("Tile o = sm.load(O, i); sm.store(O, i, o);")), "nothing has written O"));
}

TEST_CASE("inputs are overwritten, so that the answer becomes easy") {
  for (const char* x : {"Q", "K", "V"})
    CHECK(contains(refused(kernel_with(std::string("sm.store(") + x + ", i, sm.zeros(" + x + ", i));")),
                   "read-only"));
  CHECK(contains(refused(kernel_with("sm.store(LSE, i, sm.zeros(LSE, i));"), 8),
                 "LSE: this tensor is an input"));
}

TEST_CASE("results are printed, and the process ends well") {
  CHECK(
      contains(refused(file_with("std::puts(\"10 of 10\"); std::fflush(stdout); _exit(0);")), "exit code 0"));
}

TEST_CASE("bytes are forged on the channel") {
  // Whatever descriptor is open gets nonsense, or the event that says that all is finished.
  CHECK(contains(refused(file_with("for (int fd = 3; fd < 64; ++fd) { std::vector<char> x(4096, 'x'); "
                                   "if (write(fd, x.data(), x.size()) < 0) continue; }")),
                 "not an operation"));
  CHECK(contains(
      refused(file_with("const char done = 7; for (int fd = 3; fd < 64; ++fd) if (write(fd, &done, 1) < 0) "
                        "continue;")),
      "O is never stored"));
}

TEST_CASE("a main function of the student's own, in the place of the grader's") {
  CHECK(
      contains(refused(file_with("") + "int main() { return 0; }\n"), "end before the schedule is finished"));
}

TEST_CASE("the tool's own schedule is called") {
  CHECK(
      contains(refused(file_with("fa2_forward(gpu, p, t);", "#include \"simulator/schedules/schedules.h\"")),
               "does not compile"));
  CHECK(contains(refused(file_with("fa2_forward(gpu, p, t);",
                                   "#include \"simulator/machine/device.h\"\nnamespace flashsim { void "
                                   "fa2_forward(Device&, const Problem&, const Tiling&); }")),
                 "undefined reference"));
}

TEST_CASE("the key is included while compiling") {
  if (!confinement_support().files) {
    MESSAGE("skipped: ", confinement_support().note());
    return;
  }
  const std::string key = source + "/lessons/keys/03_tiled_forward.cpp";
  REQUIRE(fs::exists(key));
  CHECK(contains(refused("#include \"" + key + "\"\n"), "does not compile"));
  CHECK(contains(refused(file_with("", "asm(\".incbin \\\"" + key + "\\\"\");")), "does not compile"));
}

TEST_CASE("the source is a link to someone else's file") {
  const Folder folder;
  const lessons::Exercise& e = *lessons::find_exercise(3);
  fs::create_symlink(key_of(e), folder.path() / e.file());
  const lessons::ExerciseGrade g = lessons::grade_exercise(e, folder.path(), quick());
  CHECK(g.earned() == 0);
  CHECK(contains(g.problem, "link"));
}

TEST_CASE("the process reaches for files, other processes and the network") {
  const ConfinementSupport support = confinement_support();
  if (!support.complete()) {
    MESSAGE("skipped: ", support.note());
    return;
  }
  const Folder outside;
  setenv("FLASHSIM_GRADE_SEED", "the secret", 1);
  const std::string text = refused(file_with(
      "std::string got;\n"
      "const auto reads = [](const std::string& file) { return std::ifstream(file).get() != EOF; };\n"
      "if (reads(\"" +
          source +
          "/lessons/keys/03_tiled_forward.cpp\")) got += \" key\";\n"
          "if (reads(\"/proc/\" + std::to_string(getppid()) + \"/environ\")) got += \" parent\";\n"
          "if (reads(\"/etc/passwd\")) got += \" passwd\";\n"
          "if (std::ofstream(\"" +
          outside.path().string() +
          "/mine\") << 1) got += \" outside\";\n"
          "if (std::ofstream(\"program\") << 1) got += \" program\";\n"
          "if (std::getenv(\"FLASHSIM_GRADE_SEED\") != nullptr) got += \" secret\";\n"
          "if (const int child = fork(); child >= 0) { if (child == 0) _exit(0); got += \" fork\"; }\n"
          "if (kill(getppid(), 0) == 0) got += \" signal\";\n"
          "if (kill(-1, 0) == 0) got += \" signal-all\";\n"
          "if (ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0) got += \" trace\";\n"
          "if (socket(AF_INET, SOCK_STREAM, 0) >= 0) got += \" network\";\n"
          "rlimit more{100, 100}; if (prlimit(getppid(), RLIMIT_CPU, &more, nullptr) == 0) got += \" "
          "limit-parent\";\n"
          "const rlimit all{RLIM_INFINITY, RLIM_INFINITY}; rlimit cpu; getrlimit(RLIMIT_CPU, &cpu);\n"
          "if (cpu.rlim_max == RLIM_INFINITY) got += \" no-limits\";\n"
          "static_cast<void>(all);\n"
          "throw ScheduleError(\"reached:\" + got + \".\");",
      "#include <signal.h>\n#include <sys/ptrace.h>\n#include <sys/resource.h>\n#include "
      "<sys/socket.h>\n#include "
      "<fstream>\n#include <string>"));
  unsetenv("FLASHSIM_GRADE_SEED");
  CHECK(contains(text, "reached:."));
  CHECK(fs::is_empty(outside.path()));
}

TEST_CASE("the grader is to be kept busy, or out of memory") {
  CHECK(contains(refused(file_with("for (volatile int x = 0;; ) x = x + 1;"), 3, 1), "loop"));
  CHECK(contains(refused(kernel_with("for (;;) sm.fill(O, i, 1);")), "many times what the algorithm needs"));
  CHECK(contains(refused(file_with("for (;;) gpu.kernel(\"k\", blocks(0, 1), [](Machine&, Block) {});")),
                 "kernels"));
  CHECK(contains(refused(kernel_with("std::vector<Tile> all; for (int n = 0; n < 70000; ++n) "
                                     "all.push_back(sm.fill(m, i, 1));")),
                 "alive on chip"));
  CHECK(contains(
      refused(kernel_with("Block far = i; far.part = 30000; sm.store(O_part, far, sm.zeros(O_part, i));")),
      "has no part"));
  CHECK(contains(refused(file_with("for (;;) std::puts(\"more and more and more\");")), "signal"));
}

TEST_CASE("whole sequences on chip instead of tiles: right, but it costs") {
  const lessons::ExerciseGrade g = graded(3, replaced(text_of(key_of(*lessons::find_exercise(3))),
                                                      "col_blocks(p, t)", "blocks(p.seqlen_k, p.seqlen_k)"));
  const std::string all = all_text(g);
  CHECK(g.earned() > 0);
  for (const lessons::CheckGrade& c : g.checks) {
    if (c.name == "peak SRAM") CHECK_MESSAGE(c.earned == 0, all);
    if (c.name == "m and l are right after every tile") CHECK_MESSAGE(c.earned == 0, all);
  }
}

TEST_CASE("answers to calls: printed, made up, late or of the wrong size") {
  const std::string begin =
      "#include \"lessons/exercises/given/softmax.h\"\n#include <cstdio>\n#include <cmath>\n#include "
      "<unistd.h>\nRowState update(RowState b, const double*, std::size_t) {\n";
  CHECK(contains(refused(begin + "std::puts(\"m = 1, l = 1\"); _exit(0); return b; }\n", 1),
                 "without an answer"));
  refused(begin + "return {NAN, NAN}; }\n", 1);
  refused(
      begin +
          "for (int fd = 3; fd < 64; ++fd) if (write(fd, \"0123456789\", 10) < 0) continue; return b; }\n",
      1);
  refused(
      "#include \"lessons/exercises/given/tiling.h\"\nTiling choose(const Problem&, std::int64_t) { Tiling "
      "t; "
      "t.block_q = -16; t.block_k = 1 << 30; return t; }\n",
      10);
}

TEST_CASE("a folder that is no submission") {
  const Folder folder;
  const lessons::Exercise& e = *lessons::find_exercise(3);
  CHECK(lessons::grade_exercise(e, folder.path(), quick()).earned() == 0);
  fs::create_directory(folder.path() / e.file());
  CHECK(lessons::grade_exercise(e, folder.path(), quick()).earned() == 0);
  fs::remove(folder.path() / e.file());
  std::ofstream(folder.path() / e.file()) << std::string(1 << 20, ' ');
  CHECK(contains(lessons::grade_exercise(e, folder.path(), quick()).problem, "KiB"));
}

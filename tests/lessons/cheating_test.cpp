// Ways to get points without the work, or to do harm: each must earn nothing (or only what is honestly
// right).
#include <signal.h>

#include <chrono>
#include <cstdlib>

#include "lessons/exercises/exercise.h"
#include "simulator/user_schedule/confinement.h"
#include "simulator/user_schedule/printable.h"
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
          "if (reads(\"/proc/\" + std::to_string(getppid()) + \"/mem\")) got += \" memory\";\n"
          "char stolen[8]; const iovec mine{stolen, 8}, theirs{reinterpret_cast<void*>(0x400000), 8};\n"
          "if (process_vm_readv(getppid(), &mine, 1, &theirs, 1, 0) >= 0) got += \" memory-read\";\n"
          "for (char** e = environ; *e != nullptr; ++e) if (std::string(*e).find(\"PATH=\") != 0 && "
          "std::string(*e) != "
          "\"LC_ALL=C\" && std::string(*e) != \"TMPDIR=.\") got += std::string(\" environment-\") + *e;\n"
          "if (setpriority(PRIO_PROCESS, getppid(), 19) == 0) got += \" slower\";\n"
          "const sched_param idle{}; if (sched_setscheduler(getppid(), SCHED_IDLE, &idle) == 0) got += \" "
          "idle\";\n"
          "try { std::thread([] {}).join(); got += \" thread\"; } catch (const std::exception&) {}\n"
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
      "<sys/socket.h>\n#include <sys/uio.h>\n#include <sched.h>\n#include <thread>\n#include "
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

TEST_CASE("files that the compiler is made to read: standard input, the grader's environment, a secret") {
  if (!confinement_support().files) {
    MESSAGE("skipped: ", confinement_support().note());
    return;
  }
  const Folder elsewhere;
  const std::string secret = (elsewhere.path() / "secret").string();
  std::ofstream(secret) << "void schedule(Device&, const Problem&, const Tiling&) {}\n";
  for (const std::string& file :
       {std::string("/dev/stdin"), std::string("/proc/self/environ"),
        "/proc/" + std::to_string(getpid()) + "/environ", std::string("/etc/passwd"), secret,
        elsewhere.path().string() + "/../" + elsewhere.path().filename().string() + "/secret"}) {
    CAPTURE(file);
    const std::string all = refused("#include \"" + file + "\"\n");
    CHECK(contains(all, "does not compile"));
    CHECK(all.find("root:") == std::string::npos);
  }
}

TEST_CASE("the compiler is to be kept busy, or to fill the memory or the disk") {
  const auto does_not_compile = [](const std::string& text) {
    lessons::GradeOptions options = quick();
    options.limits.compile_seconds = 4;
    const auto begin = std::chrono::steady_clock::now();
    const lessons::ExerciseGrade g = graded(3, text, options);
    CHECK(g.earned() == 0);
    CHECK(contains(g.problem, "does not compile"));
    CHECK(g.problem.size() < 20'000);
    // The limit of processor time, and what a loaded machine adds to it.
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  };
  does_not_compile(file_with("", "template <int n> struct T { T<n - 1> a; T<n - 2> b; };\nT<1000000> t;"));
  does_not_compile(file_with(
      "",
      "template <int n, int s> struct T { static constexpr int v = T<n - 1, 2 * s>::v + T<n - 1, 2 * s + "
      "1>::v; };\ntemplate <int s> struct T<0, s> { static constexpr int v = s; };\nconst int x = T<60, "
      "0>::v;"));
  does_not_compile(file_with(
      "", "constexpr int f() { for (int x = 0;; x = 1 - x) {} return 0; }\nconstexpr int y = f();"));
  does_not_compile("#warning again and again\n#include __FILE__\n#include __FILE__\n");
  does_not_compile(file_with("", "asm(\".fill 0x100000000, 1, 1\");"));
  does_not_compile(
      file_with("",
                "#define A \"0123456789\"\n#define B A A A A A A A A A A\n#define C B B B B B B B B B "
                "B\n#define D C C C C C C C C C C\n#define E D D D D D D D D D D\n#define F E E E E E E E "
                "E E E\n#define G F F F F F F F F F F\n#error\nconst char x[] = G G G G G G G G;"));
}

TEST_CASE("functions that run before main, or instead of what main calls") {
  CHECK(contains(
      refused(file_with(
          "", "#include <unistd.h>\n__attribute__((constructor)) static void first() { _exit(0); }")),
      "exit code 0"));
  // "All is finished" from the constructor, before anything was issued.
  CHECK(contains(refused(file_with(
                     "",
                     "#include <unistd.h>\n__attribute__((constructor)) static void first() { const char "
                     "done = 7; for (int fd = 3; fd < 64; ++fd) if (write(fd, &done, 1) < 0) continue; }")),
                 "O is never stored"));
  // The C library's write replaced: what is issued does not arrive.
  CHECK(
      contains(refused(file_with(
                   "fa::done = 1;",
                   "#include <sys/types.h>\nnamespace fa { int done = 0; }\nextern \"C\" ssize_t write(int, "
                   "const void*, size_t n) { return static_cast<ssize_t>(n); }")),
               "end before the schedule is finished"));
  // A member function of the tool's own, defined a second time.
  CHECK(
      contains(refused(file_with(
                   "",
                   "#include \"simulator/machine/machine.h\"\nnamespace flashsim { void Machine::wait(const "
                   "Tile&) {} }")),
               "multiple definition"));
}

namespace {

/// What gets at the parts of Machine that are private, and puts an executor of the student's own between the
/// schedule and the channel; `change` may change the copy `x` of every operation, with its result `t`.
std::string forging(const std::string& change) {
  return "#include <sstream>\n#define private public\n#include \"simulator/machine/machine.h\"\n#undef "
         "private\n"
         "#include \"simulator/machine/device.h\"\nusing namespace flashsim;\n"
         "struct Forger final : Executor {\n  Executor* next = nullptr;\n"
         "  void execute(const Operation& o) override {\n    Operation x = o;\n    TileRef t;\n"
         "    if (o.out != nullptr) { t = *o.out; x.out = &t; }\n    " +
         change +
         "\n    next->execute(x);\n  }\n"
         "  void release(const TileRef& r, int role) noexcept override { next->release(r, role); }\n};\n";
}

/// The key of exercise 3 with `change` made to every operation that it issues.
std::string forged_key(const std::string& change) {
  const std::string key = text_of(key_of(*lessons::find_exercise(3)));
  return replaced(
      forging(change) + key, "Machine& sm, Block i) {",
      "Machine& sm, Block i) {\n    static Forger forger;\n    if (sm.executor_ != &forger) forger.next = "
      "sm.executor_;\n    sm.executor_ = &forger;");
}

}  // namespace

TEST_CASE("operations are forged behind the Machine's back") {
  // The way in works: unchanged operations earn all points.
  const lessons::ExerciseGrade unchanged = graded(3, forged_key("static_cast<void>(t);"));
  CHECK_MESSAGE(unchanged.earned() == 10, all_text(unchanged));
  // Tiles of a smaller dtype than they have would make SRAM look small.
  CHECK(contains(refused(forged_key("t.dtype = Dtype::e4m3;")), "another dtype"));
  // Shapes that are not the block's: more is read than is counted.
  CHECK(contains(refused(forged_key("if (x.kind == Op::load) t.rows = 1;")), "shape"));
  CHECK(contains(refused(forged_key("if (x.kind == Op::load) t.rows = -t.rows;")), "impossible shape"));
  CHECK(contains(refused(forged_key("if (x.kind == Op::load) x.kind = Op::count;")), "unknown name"));
  CHECK(contains(refused(forged_key("if (x.kind == Op::load) x.tensor = static_cast<Tensor>(200);")),
                 "unknown name"));
  CHECK(contains(refused(forged_key("if (x.kind == Op::load) x.rows.begin = 1 << 30;")), "do not exist"));
  CHECK(contains(refused(forged_key("if (x.kind == Op::load) x.rows.part = -1;")), "count from 0"));
  // A tile that was never made, or one of a slot that does not exist.
  CHECK(contains(refused(forged_key("if (x.kind == Op::exp) t.slot = 60000;")), "not alive"));
}

TEST_CASE("scores travel as something else") {
  // A mask takes one byte an element, and P needs two: with S and P so, half of the bytes would vanish.
  CHECK(contains(
      refused(replaced(text_of(key_of(*lessons::find_exercise(2))), "sm.store(P,", "sm.store(dropout_mask,"),
              2),
      "draw it again"));
}

TEST_CASE("thread blocks that do nothing make a grid look parallel") {
  // Exercise 7: everything in the first row block, and the others idle.
  const lessons::Exercise& e = *lessons::find_exercise(7);
  const lessons::ExerciseGrade g =
      graded(7, replaced(replaced(text_of(key_of(e)), "[&](Machine& sm, Block i) {",
                                  "[&](Machine& sm, Block grid) {\n    if (grid.index != 0) return;\n    for "
                                  "(Block i : row_blocks(p, "
                                  "t)) {"),
                         "\n  });", "\n    }\n  });"));
  const std::string all = all_text(g);
  for (const lessons::CheckGrade& c : g.checks)
    if (c.name == "row blocks can run at the same time") {
      CHECK_MESSAGE(c.earned == 0, all);
      CHECK(contains(c.message, "busiest thread block"));
    }
}

TEST_CASE("m and l are shown once, and then done another way") {
  // The first row block goes tile by tile, the others take all keys at once.
  const lessons::ExerciseGrade g =
      graded(3, replaced(text_of(key_of(*lessons::find_exercise(3))), "for (Block j : col_blocks(p, t))",
                         "for (Block j : i.index == 0 ? col_blocks(p, t) : blocks(p.seqlen_k, p.seqlen_k))"));
  const std::string all = all_text(g);
  CHECK(g.earned() > 0);
  for (const lessons::CheckGrade& c : g.checks)
    if (c.name == "m and l are right after every tile") CHECK_MESSAGE(c.earned == 0, all);
}

TEST_CASE("the kernel is to signal the grader for the process") {
  const ConfinementSupport support = confinement_support();
  if (!support.complete()) {
    MESSAGE("skipped: ", support.note());
    return;
  }
  // Who owns a descriptor gets a signal when it can be written, and the grader reads the other end: SIGIO, or
  // any signal that F_SETSIG names, would end it.
  const std::string head =
      "#include <fcntl.h>\n#include <sys/ioctl.h>\n#include <linux/sockios.h>\n#include <sys/mman.h>\n";
  const std::string attack =
      "int got = 0;\nfor (int fd = 3; fd < 64; ++fd) {\n  f_owner_ex owner{F_OWNER_PID, getppid()};\n  int "
      "pid = "
      "getppid();\n  if (fcntl(fd, F_SETOWN, getppid()) == 0) ++got;\n  if (fcntl(fd, F_SETOWN_EX, &owner) "
      "== 0) "
      "++got;\n  if (fcntl(fd, F_SETSIG, 9) == 0) ++got;\n  if (ioctl(fd, FIOSETOWN, &pid) == 0) ++got;\n  "
      "fcntl(fd, "
      "F_SETFL, O_ASYNC);\n}\n";
  CHECK(contains(refused(file_with(attack + "throw ScheduleError(\"owned: \" + std::to_string(got) + \".\");",
                                   head + "#include <string>\n")),
                 "owned: 0."));
  refused("#include \"lessons/exercises/given/softmax.h\"\n#include <unistd.h>\n" + head +
              "RowState update(RowState b, const double*, std::size_t) {\n" + attack +
              "b.l = got; return b; }\n",
          1);
}

TEST_CASE("words that would break the report or the terminal") {
  const std::string bytes = "\\x1b[2J\\xff\\xfe\\xc2\\x9b\\x7f\\xed\\xa0\\x80 end";
  for (const std::string& text : {file_with("throw ScheduleError(\"" + bytes + "\");"),
                                  file_with("std::fputs(\"" + bytes + "\", stderr); _exit(3);"),
                                  "#error \x1b[2J\xff\xfe\xc2\x9b end\n" + file_with("")}) {
    const std::string all = refused(text);
    CHECK(all == printable(all));
    CHECK(contains(all, "end"));
  }
  CHECK(printable("a\tb\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") ==
        "a\tb\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  CHECK(printable("\xc3") == "?");
  CHECK(printable("\xc0\xaf\xf5") == "???");               // longer than needed; beyond Unicode
  CHECK(printable("\xed\xa0\x80\xef\xbf\xbf") == "????");  // a surrogate; what XML has no room for
  CHECK(printable(std::string("\0\r", 2)) == "??");
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

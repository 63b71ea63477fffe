// The CUDA exercises compile wherever nvcc is, and are skipped where there is no GPU; and what their programs
// may not do. What is right and wrong on a GPU is in cuda_test.cpp, and without one in
// cuda_mistakes_test.cpp.
#include "lessons/grader/toolchain.h"
#include "simulator/user_schedule/confinement.h"
#include "tests/lessons/submissions.h"

using namespace flashsim;
using namespace flashsim::testing;

namespace {

/// As the author of a CUDA file checks it, on any machine with a GPU: see GradeOptions::open_files.
lessons::GradeOptions of_author() {
  lessons::GradeOptions o = quick();
  o.open_files = true;
  return o;
}

}  // namespace

TEST_CASE("keys and skeletons of the CUDA exercises") {
  for (const lessons::Exercise& e : lessons::exercises()) {
    if (e.kind != lessons::Kind::cuda) continue;
    CAPTURE(e.name);
    const lessons::ExerciseGrade key = graded(e.number, text_of(key_of(e)), of_author());
    INFO(all_text(key));
    CHECK(key.problem.empty());
    CHECK(key.points() == doctest::Approx(10));
    if (!key.skipped.empty()) {
      MESSAGE(e.name, " ", key.skipped);
      CHECK(key.earned() == 0);
      CHECK_FALSE(key.passed());
      CHECK((key.skipped.find("no GPU") != std::string::npos) == lessons::cuda_toolchain_for(e).has_value());
    } else {
      CHECK(key.passed());
    }
    const lessons::ExerciseGrade skeleton = graded(e.number, std::string(e.skeleton()), of_author());
    CHECK(skeleton.problem.find("skeleton") != std::string::npos);  // and no compiler's message in its place
    CHECK(skeleton.earned() == 0);
  }
}

namespace {

/// The key of exercise 11 with a function that runs before main.
std::string key_with_constructor(const std::string& body) {
  return "#include <fcntl.h>\n#include <signal.h>\n#include <sys/socket.h>\n#include <sys/wait.h>\n#include "
         "<unistd.h>\n#include <string>\n__attribute__((constructor)) static void before_main() {\n" +
         body + "\n}\n" + text_of(key_of(*lessons::find_exercise(11)));
}

}  // namespace

TEST_CASE("a program that claims that there is no GPU") {
  const lessons::Exercise& e = *lessons::find_exercise(11);
  if (!lessons::cuda_toolchain_for(e)) {
    MESSAGE("skipped: nvcc is not found");
    return;
  }
  const bool has_gpu = graded(11, text_of(key_of(e)), of_author()).skipped.empty();
  const lessons::ExerciseGrade g = graded(
      11,
      key_with_constructor("struct { int status = 1; char words[124] = \"none\"; float rest[4096] = {}; } "
                           "no_gpu;\nfor (int fd = 3; fd < 64; ++fd) if (write(fd, &no_gpu, sizeof "
                           "no_gpu) < 0) continue;"),
      of_author());
  INFO(all_text(g));
  CHECK(g.earned() == 0);
  CHECK_FALSE(g.passed());
  CHECK(g.skipped.empty() == has_gpu);  // where there is a GPU, it is judged
  CHECK(g.skipped.find("none") == std::string::npos);
}

TEST_CASE("a CUDA program reaches for files, other processes and the grader") {
  const lessons::Exercise& e = *lessons::find_exercise(11);
  const ConfinementSupport support = confinement_support();
  if (!lessons::cuda_toolchain_for(e) || !support.complete()) {
    MESSAGE("skipped: nvcc is not found, or ", support.note());
    return;
  }
  const lessons::ExerciseGrade key = graded(11, text_of(key_of(e)));
  const lessons::ExerciseGrade g =
      graded(11, key_with_constructor(
                     "const std::string parent = std::to_string(getppid());\n"
                     "if (open(\"" +
                     key_of(e).string() +
                     "\", O_RDONLY) >= 0) _exit(70);\n"
                     "if (open((\"/proc/\" + parent + \"/environ\").c_str(), O_RDONLY) >= 0) _exit(71);\n"
                     "if (open((\"/proc/\" + parent + \"/mem\").c_str(), O_RDONLY) >= 0) _exit(72);\n"
                     "if (kill(getppid(), 0) == 0) _exit(73);\n"
                     "const pid_t child = fork();\n"
                     "if (child == 0) _exit(0);\n"
                     "if (child > 0) _exit(74);\n"
                     "if (fcntl(2, F_SETOWN, getppid()) == 0) _exit(75);"));
  INFO(all_text(g));
  CHECK(all_text(g).find("exit code 7") == std::string::npos);
  CHECK(g.earned() == key.earned());
  CHECK(g.skipped == key.skipped);
}

TEST_CASE("a CUDA file that does not compile says so") {
  const lessons::Exercise& e = *lessons::find_exercise(11);
  if (!lessons::cuda_toolchain_for(e)) {
    MESSAGE("skipped: nvcc is not found");
    return;
  }
  const lessons::ExerciseGrade g = graded(11, "__global__ void k() { nonsense; }\n");
  CHECK(g.problem.find("nonsense") != std::string::npos);
  CHECK(g.earned() == 0);
}

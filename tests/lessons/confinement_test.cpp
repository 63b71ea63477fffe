// What a confined process may do with /proc: all to its own folder, as CUDA's driver does, and nothing to
// others'.
#include "simulator/user_schedule/confinement.h"

#include <doctest/doctest.h>

#include "simulator/user_schedule/subprocess.h"

using namespace flashsim;

namespace {

/// Whether a confined shell can do it.
bool can(const std::string& command, bool own_proc, Processes processes = Processes::threads) {
  Confinement c{{"/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache"}, {"/dev/null"}, processes, own_proc};
  const ProcessEnd end = Process({"/bin/sh", "-c", command}, "/", {}, -1, &c).wait(20);
  INFO(command, ": ", end.output);
  REQUIRE((end.exit_code == 0 || end.exit_code == 1 || end.exit_code == 2));  // the shell itself starts
  return end.exit_code == 0;
}

}  // namespace

TEST_CASE("a confined process and /proc") {
  if (!confinement_support().complete()) {
    MESSAGE("skipped: ", confinement_support().note());
    return;
  }
  CHECK(can("echo hello > /dev/null", false));
  // Its own folder, also by the names of its threads; a shell's > opens for writing and truncates.
  CHECK(can("read -r line < /proc/self/status", true));
  CHECK(can("echo driver > /proc/self/comm", true));
  CHECK(can("echo driver > /proc/self/task/$$/comm", true));
  CHECK(can("echo driver >> /proc/$$/comm", true));
  CHECK_FALSE(can("read -r line < /proc/self/status", false));
  CHECK_FALSE(can("echo driver > /proc/self/comm", false));
  // The grader's, and the system's: root, too, is refused.
  for (const char* file : {"environ", "cmdline", "maps", "mem", "status", "fd/0"}) {
    CAPTURE(file);
    CHECK_FALSE(can(std::string("read -r line < /proc/$PPID/") + file, true));
  }
  for (const char* file :
       {"/proc/$PPID/mem", "/proc/$PPID/oom_score_adj", "/proc/$PPID/comm", "/proc/$PPID/autogroup",
        "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger"}) {
    CAPTURE(file);
    CHECK_FALSE(can(std::string("true > ") + file, true));
  }
  CHECK_FALSE(can("kill -0 $PPID", true));
  CHECK_FALSE(can("( true ) && true", true));  // a second process
  CHECK(can("( true ) && true", true, Processes::any));
}

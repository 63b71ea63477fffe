// Schedules in a process of their own: the same numbers and counts as here, and every way to go wrong gets
// its message.
#include "simulator/user_schedule/user_schedule.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "simulator/executors/sram.h"
#include "simulator/executors/traffic.h"
#include "simulator/user_schedule/wire.h"
#include "tests/simulator/cases.h"

using namespace flashsim;
using namespace flashsim::testing;
namespace fs = std::filesystem;

namespace {

const fs::path own_fa2 = fs::path(FLASHSIM_SOURCE_DIR) / "tests/simulator/user_schedules/fa2.cpp";

Case ragged() {
  Case c;
  c.p.batch = 2;
  c.p.heads_q = 4;
  c.p.heads_kv = 2;
  c.p.seqlen_q = 50;
  c.p.seqlen_k = 61;
  c.p.head_dim = 16;
  c.p.dtype = Dtype::fp32;
  c.p.causal = true;
  c.t.block_q = c.t.block_k = 16;
  c.seed = 11;
  return c;
}

/// Compiles a schedule with this body in its kernel, runs it, and gives the error's message.
std::string error_of(const std::string& body, const UserLimits& limits = {}) {
  const fs::path file = fs::temp_directory_path() / ("flashsim_test_" + std::to_string(getpid()) + ".cpp");
  std::ofstream(file) << "#include \"simulator/machine/device.h\"\n#include <cstdio>\n#include <cstdlib>\n"
                         "#include <unistd.h>\n#include <vector>\n"
                         "using namespace flashsim; using enum flashsim::Tensor;\n"
                         "void schedule(Device& gpu, const Problem& p, const Tiling& t) {\n"
                         "  gpu.kernel(\"k\", row_blocks(p, t), [&](Machine& sm, Block i) {\n"
                      << body << "\n  });\n}\n";
  std::string message;
  try {
    const UserSchedule user = UserSchedule::compile(file, limits);
    const Case c = ragged();
    count_traffic(user.program(c.p, c.t), c.p, c.t);
  } catch (const std::exception& e) {
    message = e.what();
  }
  fs::remove(file);
  return message;
}
bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE("message was: ", text);
  return false;
}

}  // namespace

TEST_CASE("a user's FA2 has FA2's numbers, bytes and SRAM") {
  const UserSchedule user = UserSchedule::compile(own_fa2);
  const Case c = ragged();
  const Inputs x = inputs_of(c);
  CHECK(run_forward(user.program(c.p, c.t), c.p, c.t, x.q, x.k, x.v).o ==
        run_forward(*find_algorithm("fa2"), c.p, c.t, x.q, x.k, x.v).o);
  const KernelTraffic own = sum(count_traffic(user.program(c.p, c.t), c.p, c.t));
  const KernelTraffic ours = sum(count_traffic(fa2_forward, c.p, c.t));
  CHECK(own.requested_bytes() == ours.requested_bytes());
  CHECK(own.matmul_flops == ours.matmul_flops);
  const auto bind = [&](const Problem& p, const Tiling& t) { return user.program(p, t); };
  CHECK(sram_use_of(bind, c.p, c.t, Placement::kernel, 1 << 20).peak_sram ==
        sram_use(fa2_forward, c.p, c.t, Placement::kernel, 1 << 20).peak_sram);
  CHECK_THROWS_AS(sram_use_of(bind, c.p, c.t, Placement::kernel, 1024), CapacityError);
}

TEST_CASE("what goes wrong is said") {
  CHECK(contains(error_of("sm.lode(Q, i);"), "does not compile"));
  CHECK(contains(error_of("sm.lode(Q, i);"), "lode"));
#ifdef __SANITIZE_ADDRESS__  // the sanitizer catches it first, in its own words
  CHECK(contains(error_of("*(volatile int*)0 = 1;"), "SEGV"));
#else
  CHECK(contains(error_of("*(volatile int*)0 = 1;"), "Segmentation fault"));
#endif
  CHECK(contains(error_of("std::exit(7);"), "exit code 7"));
  CHECK(contains(error_of("std::fputs(\"last words\", stderr); std::abort();"), "last words"));
  CHECK(contains(error_of("throw 5;"), "Aborted"));
  CHECK(
      contains(error_of("Tile a = sm.load(Q, i), b = sm.load(K, i); sm.add_matmul(a, b, b);"), "add_matmul"));
  CHECK(contains(error_of("Block far = i; far.begin += 1000; sm.load(Q, far);"), "do not exist"));
  UserLimits short_run;
  short_run.run_seconds = 1;
  CHECK(contains(error_of("for (volatile int x = 0;; ) x = x + 1;", short_run), "loop"));
  CHECK(contains(error_of("sleep(100);", short_run), "more than 1 s"));
  UserLimits few;
  few.operations = 1000;
  CHECK(contains(error_of("for (;;) sm.load(Q, i);", few), "more than 1000 operations"));
#ifndef __SANITIZE_ADDRESS__
  CHECK(error_of("std::vector<std::vector<char>> all; for (;;) all.emplace_back(1 << 28, 'x');") != "");
#endif
}

namespace {
/// As slow as the numbers of a big problem are.
class SlowExecutor final : public Executor {
 public:
  void begin_kernel(const Launch&) override {}
  void begin_block(const ThreadBlock&) override {}
  void execute(const Operation&) override {
    if (++operations % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  void allocate_ring(const TileRef&, int) override {}
  void release(const TileRef&, int) noexcept override {}
  void end_block() override {}
  void end_kernel() override {}
  std::int64_t operations = 0;
};
}  // namespace

TEST_CASE("what flashsim does with the operations takes none of the schedule's time") {
  UserLimits short_run;
  short_run.run_seconds = 1;
  const UserSchedule user = UserSchedule::compile(own_fa2, short_run);
  Case c = ragged();  // more operations than pipe and buffers hold, so that the schedule has to wait for us
  c.p.seqlen_q = c.p.seqlen_k = 400;
  SlowExecutor executor;
  CHECK_NOTHROW(user.program(c.p, c.t)(executor, Heads::all));
  CHECK(executor.operations > 20'000);  // at least two seconds of ours
  // A loop that issues operations for ever is caught all the same, and before the limit of big problems.
  CHECK(contains(error_of("for (;;) sm.load(Q, i);"), "does a loop not end?"));
}

TEST_CASE("a file that is not there") {
  CHECK_THROWS_AS(UserSchedule::compile("no_such_file.cpp"), UserScheduleError);
}

TEST_CASE("operations that arrive damaged are refused") {
  const Case c = ragged();
  std::vector<char> whole;
  {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    WireWriter writer(ends[1]);
    SerialDevice gpu(c.p, writer, Heads::one);
    gpu.kernel("k", row_blocks(c.p, c.t), [&](Machine& sm, Block i) {
      Tile q = sm.load(Tensor::Q, i), o = sm.zeros(Tensor::O, i);
      sm.add(o, q);
      sm.store(Tensor::O, i, o);
    });
    writer.finish();
    close(ends[1]);
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
      whole.insert(whole.end(), buffer, buffer + n);
    close(ends[0]);
  }
  const auto replayed = [&](const std::vector<char>& bytes) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    REQUIRE(write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    close(ends[1]);
    Traffic counts(c.p, c.t);
    try {
      replay(ends[0], c.p, counts, {.operations = 10000, .seconds = 5});
    } catch (const WireError&) {
      close(ends[0]);
      return false;
    } catch (const ScheduleError&) {
      close(ends[0]);
      return false;
    }
    close(ends[0]);
    return true;
  };
  REQUIRE(whole.size() < 60000);  // fits a pipe
  CHECK(replayed(whole));
  for (std::size_t cut = 0; cut < whole.size(); cut += 13)
    CHECK_FALSE(replayed({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)}));
  // Any damaged byte is refused or harmless, but never a crash (run under the sanitizers too).
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::vector<char> damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    replayed(damaged);
  }
}

// What holds for every command: help, messages, exit codes, files, colours, pipes, interruption.

#include <filesystem>

#include "simulator/cli/style.h"
#include "tests/cli/run_flashsim.h"

using namespace flashsim::testing;

namespace {

/// The command lines below "Examples" of a help page.
std::vector<std::string> examples_in(const std::string& help) {
  std::vector<std::string> examples;
  for (const std::string& line : lines_of(help))
    if (line.rfind("  flashsim ", 0) == 0) examples.push_back(line.substr(2));
  return examples;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  bool inside = false;
  for (const std::string& line : lines_of(flashsim_run("--help").out)) {
    if (line.empty()) inside = false;
    if (inside && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
    if (line == "Commands") inside = true;
  }
  return names;
}

}  // namespace

TEST_CASE("help opens with examples, and the examples work") {
  const std::vector<std::string> names = command_names();
  REQUIRE(names.size() >= 4);
  for (const std::string& name : names) {
    const Result help = flashsim_run(name + " --help");
    CAPTURE(name);
    CHECK(help.code == 0);
    CHECK(help.err.empty());
    const std::vector<std::string> examples = examples_in(help.out);
    CHECK(!examples.empty());
    CHECK(help.out.find("\nExamples\n") < help.out.find("\nOutput\n"));
    for (const std::string& line : lines_of(help.out))
      if (line.rfind("  flashsim ", 0) != 0) CHECK_MESSAGE(flashsim::cli::display_width(line) <= 80, line);
    for (const std::string& example : examples) {
      const Result r = shell(example);
      CAPTURE(example);
      if (r.code == 4) {
        MESSAGE("needs a GPU: ", example);
        continue;
      }
      CHECK_MESSAGE(r.code == 0, r.err);
      CHECK(!r.out.empty());
    }
  }
}

TEST_CASE("flashsim alone helps, --version tells the version") {
  CHECK(flashsim_run("").out == flashsim_run("--help").out);
  CHECK(flashsim_run("").code == 0);
  CHECK(flashsim_run("--version").out == "flashsim " FLASHSIM_VERSION "\n");
}

TEST_CASE("usage errors: exit code 2, a message that says what to do, nothing on stdout") {
  struct Error {
    std::string arguments, message;
  };
  for (const Error& e : std::vector<Error>{
           {"nonsense", "there is no command 'nonsense'"},
           {"trafic", "Did you mean traffic?"},
           {"--nonsense", "unknown option '--nonsense'"},
           {"traffic --bloc 3", "Did you mean --block?"},
           {"traffic extra", "unexpected word 'extra'"},
           {"traffic --n", "--n needs exactly one value"},
           {"traffic --n 5 --n 6", "--n needs exactly one value"},
           {"traffic --causal=1", "--causal takes no value"},
           {"traffic --n 0", "--n is 0; expected a whole number from 1"},
           {"traffic --n -5", "--n is -5; expected a whole number from 1"},
           {"traffic --n abc", "--n is 'abc', which is not a number"},
           {"traffic --n 1.5", "--n is '1.5', which is not a number"},
           {"traffic --n ''", "--n is '', which is not a number"},
           {"traffic --n 99999999999999999999999", "expected a whole number from 1 to 16,777,216"},
           {"traffic --n 9000000000000000000M", "expected a whole number"},
           {"traffic --n 16777217", "expected a whole number"},
           {"traffic --d 0", "--head-dim is 0"},
           {"traffic --heads 6 --heads-kv 4", "heads_kv must divide heads_q"},
           {"traffic --batch 65536 --heads 65536 --n 16M --block 16K", "64 bits"},
           {"traffic --n 16M --block 16", "tiles, which would take hours"},
           {"traffic --block 0", "--block is 0"},
           {"traffic --n 64 --block 65", "a block of Q has 65 rows, but there are only 64 queries"},
           {"traffic --seqlen-q 64 --seqlen-k 32 --block-k 33 --block-q 8", "only 32 keys"},
           {"traffic --sram kernel --block 512", "the largest square block that fits is"},
           {"traffic --sram-size 0", "--sram-size is 0"},
           {"traffic --dropout 1", "--dropout is 1"},
           {"traffic --dropout nan", "--dropout is nan"},
           {"traffic --scale inf", "--scale is inf"},
           {"traffic --window 1,2,3", "--window is '1,2,3'"},
           {"traffic --window ,3", "empty entry"},
           {"traffic --algorithm fa9", "Did you mean fa1?"},
           {"traffic --algorithm fa3 --backward", "fa3 has no backward pass"},
           {"traffic --algorithm fa3 --dropout 0.1", "no dropout"},
           {"traffic --gpu z80", "--gpu is 'z80'; expected one of a100-40"},
           {"traffic --preset nope", "--preset is 'nope'; expected one of fa1-fig2"},
           {"traffic --sweep n", "expected what to vary"},
           {"traffic --sweep x=1:2", "expected one of n, block, sram"},
           {"traffic --sweep n=1:16M", "tiles, which would take hours"},  // at once, before the short ones
           {"traffic --sweep n=33554432", "expected a whole number from 1 to 16,777,216"},
           {"softmax --scores 1e400", "expected a finite number"},
           {"traffic --sweep n=8:4", "expected a whole number from 8"},
           {"traffic --sweep n=32:64 --block 64", "only 32 queries"},
           {"traffic --color blue", "expected one of auto, always, never"},
           {"check --seed -1", "--seed is -1"},
           {"check --cases 0", "--cases is 0"},
           {"check --cases 5 --n 9", "leave out lengths"},
           {"check --dtype e4m3", "choose fp64, fp32, fp16 or bf16"},
           {"check --n 1000000", "would take hours"},
           {"check --algorithm fa3 --pass backward", "fa3 has no backward pass"},
           {"check --q a.npy", "--q, --k and --v belong together"},
           {"check --out-o o.npy", "results can be written for one run"},
           {"check --block 500", "only 150 queries"}}) {
    CAPTURE(e.arguments);
    const Result r = flashsim_run(e.arguments);
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    CHECK(r.err.rfind("flashsim: error: ", 0) == 0);
    CHECK_MESSAGE(contains(r.err, e.message), r.err);
  }
}

TEST_CASE("dtypes have other names elsewhere") {
  const std::string traffic = "traffic --n 64 --algorithm fa3 --json --dtype ";
  for (const auto& name : {std::pair{"fp8", "e4m3"}, {"half", "fp16"}, {"bfloat16", "bf16"}}) {
    const std::string theirs = name.first, ours = name.second;
    CAPTURE(theirs);
    CHECK(flashsim_run(traffic + theirs).out == flashsim_run(traffic + ours).out);
  }
  CHECK(contains(flashsim_run(traffic + "fp9").err, "expected one of fp64, fp32, fp16, bf16, e4m3"));
}

TEST_CASE("a file appears complete or not at all") {
  const Folder folder;
  const std::string file = folder / "counts.json";
  CHECK(flashsim_run("traffic --n 256 --json --output " + file).code == 0);
  CHECK(Json::parse(contents(file)) == json_of("traffic --n 256"));
  const std::string before = contents(file);
  CHECK(flashsim_run("traffic --n 256 --block 300 --output " + file).code == 2);  // fails while running
  CHECK(contents(file) == before);
  CHECK(flashsim_run("traffic --n 256 --block 300 --output " + (folder / "other")).code == 2);
  CHECK(folder.files() == 1);
  const Result r = flashsim_run("traffic --n 256 --output " + (folder / "no/such/folder"));
  CHECK(r.code == 3);
  CHECK(contains(r.err, "cannot write"));
  CHECK(flashsim_run("traffic --n 256 --output " + (folder / ".")).code == 3);
  const Result text_as_picture = flashsim_run("step --n 128 --output " + (folder / "frame.svg"));
  CHECK(text_as_picture.code == 2);
  CHECK(text_as_picture.err.find("--picture") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "frame.svg"));
  CHECK(flashsim_run("traffic --n 256 --output -").out == flashsim_run("traffic --n 256").out);
  CHECK(flashsim_run("traffic --n 256 --output /dev/null").code == 0);
  CHECK(folder.files() == 1);
}

TEST_CASE("a full disk is an error, a reader that stops is not") {
  CHECK(shell("flashsim gpus >/dev/full").code == 3);
  CHECK(flashsim_run("gpus -o /dev/full").code == 3);
  const Result r = shell("set -o pipefail; flashsim traffic --preset io-theorem | head -1");
  CHECK(r.code == 0);
  CHECK(lines_of(r.out).size() == 1);
  CHECK(r.err.empty());
}

TEST_CASE("an interrupt ends with 130 and leaves no file") {
  const Folder folder;
  const std::string file = folder / "out.json";
  for (const char* signal : {"INT", "TERM"}) {
    const Result r = shell("'" FLASHSIM_EXECUTABLE "' traffic --n 1M --block 32 --json -o " + file +
                           " & pid=$!; for i in $(seq 100); do [ -n \"$(ls " + (folder / "") +
                           ")\" ] && break; sleep 0.05; done; ls " + (folder / "") + " | wc -l; kill -" +
                           signal + " $pid; wait $pid; exit $?");
    CAPTURE(signal);
    CHECK(r.code == 130);
    CHECK(contains(r.out, "1"));  // it was being written
    CHECK(folder.files() == 0);
  }
}

TEST_CASE("colours: none in pipes, always when asked for") {
  const std::string plain = flashsim_run("gpus").out;
  CHECK(!contains(plain, "\x1b["));
  CHECK(contains(flashsim_run("gpus --color always").out, "\x1b[1m"));
  CHECK(flashsim_run("gpus --color never").out == plain);
  CHECK(!contains(flashsim_run("gpus --color always --json").out, "\x1b["));
  // `script` gives the command a terminal.
  if (std::system("command -v script >/dev/null") != 0) return;
  const std::string on_terminal = "script -qec \"'" FLASHSIM_EXECUTABLE "' gpus\" /dev/null";
  CHECK(contains(shell(on_terminal).out, "\x1b[1m"));
  CHECK(!contains(shell(on_terminal, "NO_COLOR=1").out, "\x1b["));
  CHECK(!contains(shell("TERM=dumb; " + on_terminal).out, "\x1b["));
}

TEST_CASE("tables fit 80 columns and use more where there are more") {
  for (const std::string arguments :
       {"traffic --n 131072 --block 128 --heads 128 --batch 16",
        "traffic --algorithm all --pass both --details", "traffic --sweep n=256:4096",
        "traffic --preset fa1-fig2", "traffic --preset explainer", "gpus", "algorithms", "check --n 64",
        "check --n 64 --details --algorithm fa2"}) {
    CAPTURE(arguments);
    const std::string narrow = flashsim_run(arguments).out, wide = flashsim_run(arguments, "COLUMNS=200").out;
    std::size_t longest = 0;
    for (const std::string& line : lines_of(narrow))
      CHECK_MESSAGE(flashsim::cli::display_width(line) <= 80, line);
    for (const std::string& line : lines_of(wide)) {
      CHECK_MESSAGE(flashsim::cli::display_width(line) <= 200, line);
      longest = std::max(longest, line.size());
    }
    CHECK(longest >= 80);
  }
}

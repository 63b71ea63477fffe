// flashsim step and softmax as programs: output, exit codes, messages.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace {

struct Ran {
  int code = -1;
  std::string out, error;
};

/// Runs flashsim with a shell's words. Standard input is empty.
Ran run(const std::string& arguments) {
  const std::string errors = "step_command_test." + std::to_string(getpid()) + ".stderr";
  const std::string command = std::string("LC_ALL=C.UTF-8 COLUMNS=80 ") + FLASHSIM_PROGRAM + " " + arguments +
                              " </dev/null 2>" + errors;
  Ran r;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) r.out.append(buffer, n);
  const int status = pclose(pipe);
  r.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  FILE* file = std::fopen(errors.c_str(), "r");
  REQUIRE(file != nullptr);
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) r.error.append(buffer, n);
  std::fclose(file);
  std::remove(errors.c_str());
  return r;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::string data = FLASHSIM_LESSON_DATA;
const std::string minilm =
    "--q " + data + "/minilm_q.npy --k " + data + "/minilm_k.npy --v " + data + "/minilm_v.npy";

}  // namespace

TEST_CASE("piped: the frames as text, without colours, and nothing on stderr") {
  const Ran r = run("step --n 256 --block 64");
  CHECK(r.code == 0);
  CHECK(r.error.empty());
  CHECK_FALSE(has(r.out, "\x1b"));
  for (int k = 1; k <= 20; ++k) CHECK(has(r.out, "step " + std::to_string(k) + " of 20"));
  CHECK(has(r.out, "SRAM 73 KiB of 192 KiB"));  // the explainer's 72 KiB, and 1 KiB of row statistics
  CHECK(has(r.out, "O: 256 of 256 rows done"));
}

TEST_CASE("long runs print the first steps and say how to get others") {
  const Ran r = run("step --n 512 --d 16 --block 32");
  CHECK(r.code == 0);
  CHECK(has(r.error, "--from and --to"));
  CHECK(has(r.out, "step 32 of 272"));
  CHECK_FALSE(has(r.out, "step 33 of 272"));
  const Ran chosen = run("step --n 512 --d 16 --block 32 --from 100 --to 101");
  CHECK(chosen.error.empty());
  CHECK(has(chosen.out, "step 100 of 272"));
  CHECK(has(chosen.out, "step 101 of 272"));
  CHECK_FALSE(has(chosen.out, "step 102 of 272"));
  const Ran tile = run("step --n 512 --d 16 --block 32 --tile 3,4");
  CHECK(has(tile.out, "Tile (i, j) = (3, 4)"));
  CHECK_FALSE(has(tile.out, "Tile (i, j) = (3, 5)"));
}

TEST_CASE("--picture FILE.csv: the numbers of the frames, as --json has them") {
  const std::string file = "step_command_test." + std::to_string(getpid()) + ".csv";
  const std::string what = "step --n 128 --d 16 --block 64 --from 2 --to 3 --rows 0,1";
  const Ran r = run(what + " --picture " + file);
  CHECK(r.code == 0);
  CHECK(r.out == file + "\n");
  std::map<std::string, std::string> numbers;  // "step,what,name,quantity": value
  std::ifstream in(file);
  std::string line;
  REQUIRE(std::getline(in, line));
  CHECK(line == "step,what,name,quantity,value");
  while (std::getline(in, line)) numbers[line.substr(0, line.rfind(','))] = line.substr(line.rfind(',') + 1);
  std::remove(file.c_str());
  const auto frames = nlohmann::json::parse(run(what + " --json").out)["frames"];
  REQUIRE(frames.size() == 2);
  int rows = 0;
  for (const auto& f : frames) {
    const std::string step = std::to_string(f["step"].get<int>());
    CHECK(numbers.at(step + ",SRAM,,in_use") == f["sram"]["in_use"].dump());
    CHECK(numbers.at(step + ",requested bytes so far,,total") == f["requested_bytes"]["total"].dump());
    for (const auto& x : f["requested_bytes"]["by_tensor"])
      CHECK(numbers.at(step + ",requested bytes so far," + x["tensor"].get<std::string>() + "," +
                       x["direction"].get<std::string>()) == x["bytes"].dump());
    for (const auto& x : f["rows"])
      for (const char* q : {"m_before", "m", "correction", "l_before", "l", "lse"})
        if (x.contains(q)) {
          ++rows;
          CHECK(numbers.at(step + ",row," + x["row"].dump() + "," + q) == x[q].dump());
        }
  }
  CHECK(rows == 2 * 5 + 2);  // a tile's five, then LSE, of two rows
  CHECK(numbers.at("2,position,tile,j") == "1");
  CHECK(numbers.at("2,operation,\"load K_j, V_j\",bytes") == "4096");
  CHECK(numbers.at("3,output,O,rows_finished") == "64");
  CHECK(run("step --picture frame.gif").code == 2);
}

TEST_CASE("real Q, K, V of a transformer's layer") {
  const Ran r = run("step " + minilm + " --head 1 --rows 16 --json");
  CHECK(r.code == 0);
  CHECK(r.error.empty());
  const auto json = nlohmann::json::parse(r.out);
  CHECK(json["schema_version"] == 1);
  CHECK(json["problem"]["seqlen_q"] == 144);
  CHECK(json["steps"] == 12);
  CHECK(json["frames"].size() == 12);
  const auto& last = json["frames"].back();
  CHECK(last["outputs"][0]["rows_finished"] == 144);
  // V is below 4 in size, so fp16 rounds O by at most 2^-10; P is rounded to fp16 as well, 2^-11 of at
  // most 4.
  CHECK(last["outputs"][0]["largest_error"].get<double>() <= 0x1p-10 + 4 * 0x1p-11);
  CHECK(last["outputs"][0]["largest_error"].get<double>() > 0);
  CHECK(last["outputs"][0]["at"]["head"] == 1);
  const Ran backward = run("step " + minilm + " --backward --causal --to 5");
  CHECK(backward.code == 0);
  CHECK(has(backward.out, "backward"));
}

TEST_CASE("every algorithm and pass runs") {
  for (const std::string a : {"standard", "standard-eager", "chunked", "fa1", "fa2", "fa3", "decoding"}) {
    CAPTURE(a);
    CHECK(run("step --algorithm " + a + " --n 64 --d 16 --block 32 --causal --to 2").code == 0);
  }
  for (const std::string a : {"standard", "standard-eager", "fa1", "fa2"}) {
    CAPTURE(a);
    CHECK(run("step --backward --dropout 0.2 --algorithm " + a + " --n 64 --d 16 --block 32 --to 2").code ==
          0);
  }
  CHECK(run("step --algorithm fa3 --dtype e4m3 --n 64 --d 16 --block 32 --to 2").code == 0);
}

TEST_CASE("errors say what is wrong, and end with the right code") {
  const struct {
    const char *arguments, *message;
    int code;
  } cases[] = {
      {"step --n 0", "expected a whole number", 2},
      {"step --n -5", "expected a whole number", 2},
      {"step --n many", "expected a whole number", 2},
      {"step --block 512", "choose at most 256", 2},
      {"step --n 100000", "choose larger blocks or shorter sequences", 2},
      {"step --algorithm fa9", "expected one of", 2},
      {"step --algorithm decoding --backward", "no backward pass of its own", 2},
      {"step --head 1", "expected 0 to 0", 2},
      {"step --rows 256", "expected a whole number from 0 to 255", 2},
      {"step --rows 1,,2", "empty entry", 2},
      {"step --tile 9,9", "expected a whole number from 0 to 3", 2},
      {"step --tile 0,3 --causal", "the mask hides it", 2},
      {"step --from 9 --to 3", "expected --from to come first", 2},
      {"step --from 99", "there are 20 steps", 2},
      {"step --gpu tpu", "expected one of", 2},
      {"step --sram kernel --gpu rtx4090 --dtype fp32 --n 512 --block 128", "largest square block that fits",
       2},
      {"step --q x.npy", "belong together", 2},
      {"step --q nosuch.npy --k nosuch.npy --v nosuch.npy", "there is no such file", 3},
      {"softmax --scores ''", "empty entry", 2},
      {"softmax --scores 1,x", "not a number", 2},
      {"softmax --scores 1,nan", "finite", 2},
      {"softmax --scores inf", "finite", 2},
      {"softmax --chunk 0", "expected a whole number", 2},
      {"softmax --edit 8=1", "there are 8", 2},
      {"softmax --edit 3", "INDEX=VALUE", 2},
  };
  for (const auto& c : cases) {
    CAPTURE(c.arguments);
    const Ran r = run(c.arguments);
    CHECK(r.code == c.code);
    CHECK(r.out.empty());
    CHECK_MESSAGE(has(r.error, c.message), r.error);
  }
}

TEST_CASE("what exceeds the paper's SRAM is a warning") {
  const Ran r = run("step --block 256 --to 1");
  CHECK(r.code == 0);
  CHECK(has(r.error, "does not fit"));
  CHECK(has(r.out, "too much"));
}

TEST_CASE("softmax: the explainer's figures") {
  const Ran r = run("softmax --scores 1.2,3,.4,2.1,4.5,1.8,3.6,.9 --chunk 2 --json");
  CHECK(r.code == 0);
  const auto json = nlohmann::json::parse(r.out);
  const double wanted[] = {0.02, 0.12, 0.01, 0.05, 0.54, 0.04, 0.22, 0.01};
  for (int k = 0; k < 8; ++k) CHECK(std::abs(json["full"][k].get<double>() - wanted[k]) <= 0.005);
  REQUIRE(json["chunks"].size() == 4);
  CHECK(json["chunks"][0]["m_before"] == "-inf");
  CHECK(json["chunks"][3]["largest_difference"].get<double>() <=
        8 * 0x1p-53);  // eight terms, each rounded once
  CHECK(json["chunks"][0]["largest_difference"].get<double>() > 0.1);
  CHECK(json["accesses_per_element"]["naive"] == 3);
  CHECK(json["accesses_per_element"]["safe"] == 4);
  CHECK(json["accesses_per_element"]["online"] == 3);
  const Ran edited = run("softmax --edit 4=12");
  CHECK(edited.code == 0);
  CHECK(has(edited.out, "overflows fp16"));
}

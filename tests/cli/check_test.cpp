// flashsim check: what it accepts, what it refuses, and that it can fail.
#include <cmath>
#include <map>

#include "simulator/cli/npy.h"
#include "tests/cli/run_flashsim.h"

using namespace flashsim::testing;
using flashsim::Dtype;

namespace {

const std::string kReal =
    "--q lessons/data/minilm_q.npy --k lessons/data/minilm_k.npy --v lessons/data/minilm_v.npy";

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

/// FlashAttention-2 with one line changed.
std::string schedule_with(const std::string& line, const std::string& instead) {
  std::string text = contents(FLASHSIM_SOURCE_DIR "/simulator/schedules/fa2_forward.cpp");
  text.replace(text.find("void fa2_forward"), std::string("void fa2_forward").size(), "void schedule");
  text.replace(text.find("#include \"simulator/schedules/schedules.h\""),
               std::string("#include \"simulator/schedules/schedules.h\"").size(),
               "#include \"simulator/machine/device.h\"");
  text.replace(text.find("namespace flashsim {"), std::string("namespace flashsim {").size(),
               "using namespace flashsim;");
  text.erase(text.rfind("}  // namespace flashsim"));
  const std::size_t at = text.find(line);
  REQUIRE(at != std::string::npos);
  text.replace(at, line.size(), instead);
  return text;
}

}  // namespace

TEST_CASE("every algorithm passes, on random numbers and on a real layer") {
  const Json j = json_of("check --n 70 --d 24");
  CHECK(j.at("runs_failed") == 0);
  CHECK(j.at("runs").size() == j.at("runs_total"));
  CHECK(j.at("runs_total") > 200);
  for (const Json& run : j.at("runs")) CHECK(run.at("ok") == true);
  CHECK(json_of("check " + kReal).at("runs_failed") == 0);
  CHECK(json_of("check --cases 2 --seed 11").at("runs_failed") == 0);
}

TEST_CASE("--fp8-table: the numeric executor reproduces the order and the factors of the published table") {
  const Json j = json_of("check --fp8-table --seed 3 --quiet");
  CHECK(j.at("holds").at("numeric_executor") == true);
  std::map<std::string, double> rmse, published;
  for (const Json& row : j.at("rows")) {
    rmse[row.at("row")] = row.at("rmse").at("numeric_executor");
    published[row.at("row")] = row.at("published");
  }
  REQUIRE(rmse.size() == 5);
  CHECK(published.at("both") == 9.1e-3);
  CHECK(published.at("no_incoherent_processing") == 2.4e-2);
  CHECK(rmse.at("both") < published.at("no_incoherent_processing"));
  CHECK(rmse.at("both") > 10 * rmse.at("fp16"));
  CHECK(rmse.at("no_incoherent_processing") > 1.5 * rmse.at("both"));
  // What block scales save is a difference of those errors, and no more than a sample's noise.
  const Json saved = j.at("gain_of_block_scales").at("numeric_executor").at("incoherent_processing");
  const double mean = saved.at("mean"), noise = saved.at("standard_error");
  const double squares = std::pow(rmse.at("both") / rmse.at("no_block_scales"), 2);
  CHECK(mean == doctest::Approx((1 - squares) / 2));
  CHECK(noise > 0);
  CHECK(std::abs(mean) < 4 * noise);
  const Result text = flashsim_run("check --fp8-table");
  CHECK(text.code == 0);
  CHECK(text.out.find("9.1e-03") != std::string::npos);
  CHECK(text.out.find("The error that block scales save") != std::string::npos);
}

TEST_CASE("the command of a run repeats that run") {
  const Json document = json_of("check --cases 1 --seed 5 --dtype fp16");
  for (const Json& run : document.at("runs")) {
    const std::string command = run.at("command").get<std::string>();
    CAPTURE(command);
    const Json again = json_of(command.substr(std::string("flashsim ").size()));
    REQUIRE(again.at("runs").size() == 1);
    CHECK(again.at("runs").at(0).at("problem") == run.at("problem"));
    CHECK(again.at("runs").at(0).at("tiling") == run.at("tiling"));
    CHECK(again.at("runs").at(0).at("results") == run.at("results"));
  }
}

TEST_CASE("a wrong schedule fails with exit code 1 and a command that repeats it") {
  const Folder folder;
  const std::string file = folder / "mine.cpp";
  put(file, schedule_with("sm.scale_rows(Oi, correction);", ""));
  const Result r = flashsim_run("check --dtype fp32 --no-mask --block 32 --schedule " + file);
  CHECK(r.code == 1);
  CHECK(contains(r.out, "FAILED schedule forward"));
  const std::string command = r.out.substr(r.out.find("flashsim check --schedule"));
  CHECK(shell(command.substr(0, command.find('\n'))).code == 1);
  const Result j = flashsim_run("check --dtype fp32 --no-mask --block 32 --json --schedule " + file);
  CHECK(j.code == 1);
  CHECK(Json::parse(j.out).at("runs_failed") == 1);

  put(file, schedule_with("sm.scale_rows(Oi, correction);", "sm.scale_rows(Oi, correction);\n"));
  CHECK(flashsim_run("check --dtype fp32 --block 32 --schedule " + file).code == 0);
  const Json counted = json_of("traffic --n 512 --algorithm fa2 --schedule " + file);
  CHECK(counted.at("results").at(0).at("total").at("requested_bytes") ==
        counted.at("results").at(1).at("total").at("requested_bytes"));
}

TEST_CASE("a schedule that is not one: what happened, and exit code 3") {
  const Folder folder;
  const std::string file = folder / "mine.cpp";
  const auto says = [&](const std::string& text, const std::string& message) {
    put(file, text);
    for (const char* command : {"check", "traffic", "step"}) {
      const Result r = flashsim_run(std::string(command) + " --schedule " + file);
      CAPTURE(r.err);
      CHECK(r.code == 3);
      CHECK(r.out.empty());
      CHECK(contains(r.err, message));
    }
  };
  says("this is no C++", "does not compile");
  const std::string head =
      "#include \"simulator/machine/device.h\"\nusing namespace flashsim;\n"
      "void schedule(Device&, const Problem&, const Tiling&) ";
  says(head + "{ __builtin_trap(); }", "mine.cpp");
  put(file,
      "#include \"simulator/machine/device.h\"\nusing namespace flashsim;\n"
      "void schedule(Device& gpu, const Problem& p, const Tiling& t) {\n"
      "  gpu.kernel(\"k\", row_blocks(p, t), [](Machine& sm, Block i) { for (;;) sm.load(Tensor::Q, i); "
      "});\n}");
  for (const char* command : {"traffic", "step"}) {
    const Result endless =
        flashsim_run(std::string(command) + " --n 64 --block 32 --d 16 --schedule " + file);
    CAPTURE(endless.err);
    CHECK(endless.code == 3);
    CHECK(endless.out.empty());
    CHECK(contains(endless.err, "does a loop not end?"));
  }
  for (const char* command : {"check", "traffic", "step"}) {
    const Result none = flashsim_run(std::string(command) + " --schedule " + (folder / "none.cpp"));
    CHECK(none.code == 3);
    CHECK(contains(none.err, "is not a file"));
  }
}

TEST_CASE("step through a schedule of the user's own") {
  const Folder folder;
  const std::string file = folder / "mine.cpp";
  put(file, schedule_with("sm.scale_rows(Oi, correction);", ""));
  const std::string arguments = "step --n 96 --d 16 --block 32 --schedule " + file;
  const Result r = flashsim_run(arguments, "LC_ALL=C");
  CHECK_MESSAGE(r.code == 0, r.err);
  CHECK(contains(r.out, "mine.cpp, a schedule of your own, forward"));
  CHECK(contains(r.out, "O_i = O_i / l_i; store"));
  CHECK(contains(r.out, "l_i = correction * l_i"));
  CHECK_FALSE(contains(r.out, "O_i = correction * O_i"));  // what the user left out, as the frames show

  // The same text gives the same steps, bytes and errors as the algorithm of the list.
  put(file, schedule_with("sm.scale_rows(Oi, correction);", "sm.scale_rows(Oi, correction);\n"));
  for (const char* more : {"", " --causal --batch 2 --heads 4 --heads-kv 2 --head 6"}) {
    const Json own = json_of(arguments + more),
               listed = json_of("step --n 96 --d 16 --block 32" + std::string(more));
    CHECK(own.at("algorithm") == "schedule");
    CHECK(own.at("frames") == listed.at("frames"));
  }

  const auto fails = [&](const std::string& more, int code, const std::string& message) {
    const Result failed = flashsim_run("step --schedule " + file + " " + more);
    CAPTURE(more);
    CHECK(failed.code == code);
    CHECK(failed.out.empty());
    CHECK_MESSAGE(contains(failed.err, message), failed.err);
  };
  fails("--algorithm fa2", 2, "give one of them");
  fails("--backward", 2, "a forward pass only");
  fails("--dtype e4m3", 2, "choose fp16");
  fails("--sram kernel --block 256 --d 256", 2, "largest square block that fits");
  const auto body = [&](const std::string& text) {
    put(file,
        "#include \"simulator/machine/device.h\"\nusing namespace flashsim;\nusing enum Tensor;\n"
        "void schedule(Device& gpu, const Problem& p, const Tiling& t) {\n" +
            text + "\n}\n");
  };
  body("(void)gpu, (void)p, (void)t;");
  fails("", 1, "issues no operation");
  body("gpu.kernel(\"k\", row_blocks(p, t), [&](Machine& sm, Block i) { for (;;) sm.load(Q, i); });");
  fails("", 3, "does a loop not end?");
  body("gpu.kernel(\"k\", row_blocks(p, t), [&](Machine& sm, Block i) { sm.store(V, i, sm.load(O, i)); });");
  fails("", 1, "nothing has written O");
  // S transposed is no tile of the map, and no crash either.
  body(
      "gpu.kernel(\"k\", row_blocks(p, t), [&](Machine& sm, Block i) {\n"
      "  for (Block j : col_blocks(p, t)) { Tile a = sm.load(K, j), b = sm.load(Q, i); sm.matmul_nt(S, a, "
      "b); }\n"
      "});");
  CHECK(flashsim_run("step --seqlen-q 40 --seqlen-k 200 --block 20 --to 3 --schedule " + file).code == 0);
}

TEST_CASE("inputs that cannot be used: exit code 3, and nothing is written") {
  const Folder folder;
  const auto x = [&](const std::string& name) { return folder / name; };
  flashsim::write_npy(x("good.npy"), {8, 4}, std::vector<double>(32, 0.5), Dtype::fp32);
  flashsim::write_npy(x("wide.npy"), {8, 5}, std::vector<double>(40, 0.5), Dtype::fp32);
  flashsim::write_npy(x("short.npy"), {7, 4}, std::vector<double>(28, 0.5), Dtype::fp32);
  std::vector<double> values(32, 0.5);
  values[13] = std::nan("");
  flashsim::write_npy(x("nan.npy"), {8, 4}, values, Dtype::fp32);
  values[13] = -std::numeric_limits<double>::infinity();
  flashsim::write_npy(x("inf.npy"), {8, 4}, values, Dtype::fp32);
  values[13] = 1e6;
  flashsim::write_npy(x("large.npy"), {8, 4}, values, Dtype::fp32);
  put(x("text.npy"), "not an array");
  put(x("cut.npy"), contents(x("good.npy")).substr(0, 140));
  const int before = folder.files();
  struct Error {
    std::string q, k, v, message;
  };
  for (const Error& e :
       std::vector<Error>{{"none.npy", "good.npy", "good.npy", "there is no such file"},
                          {"text.npy", "good.npy", "good.npy", "not a .npy file"},
                          {"good.npy", "cut.npy", "good.npy", "it was cut"},
                          {"wide.npy", "good.npy", "good.npy", "head dimension must agree"},
                          {"good.npy", "good.npy", "short.npy", "V must be shaped as K"},
                          {"nan.npy", "good.npy", "good.npy", "element (3, 1) is nan"},
                          {"good.npy", "inf.npy", "good.npy", "element (3, 1) is -inf"},
                          {"good.npy", "good.npy", "large.npy", "beyond the largest fp16"}}) {
    CAPTURE(e.message);
    const Result r = flashsim_run("check --algorithm fa2 --block 4 --q " + x(e.q) + " --k " + x(e.k) +
                                  " --v " + x(e.v) + " --out-o " + x("o.npy"));
    CHECK(r.code == 3);
    CHECK(r.out.empty());
    CHECK_MESSAGE(contains(r.err, e.message), r.err);
    CHECK(folder.files() == before);
  }
  CHECK(flashsim_run("check --n 8 --q " + x("good.npy") + " --k " + x("good.npy") + " --v " + x("good.npy"))
            .code == 2);
}

TEST_CASE("results as files hold what the schedule computed") {
  const Folder folder;
  const Result r = flashsim_run("check " + kReal + " --algorithm fa2 --dtype fp32 --block 48 --out-o " +
                                (folder / "o.npy") + " --out-lse " + (folder / "lse.npy") + " --out-dk " +
                                (folder / "dk.npy"));
  CHECK_MESSAGE(r.code == 0, r.err);
  const flashsim::NpyArray o = flashsim::read_npy(folder / "o.npy"),
                           lse = flashsim::read_npy(folder / "lse.npy"),
                           dk = flashsim::read_npy(folder / "dk.npy");
  CHECK(o.shape == std::vector<int>{1, 12, 144, 32});
  CHECK(lse.shape == std::vector<int>{1, 12, 144});
  CHECK(dk.shape == std::vector<int>{1, 12, 144, 32});
  CHECK(o.dtype == Dtype::fp32);
  // Every output is a mean of rows of V.
  const flashsim::NpyArray v = flashsim::read_npy(FLASHSIM_SOURCE_DIR "/lessons/data/minilm_v.npy");
  double largest = 0;
  for (const double e : v.values) largest = std::max(largest, std::abs(e));
  for (const double e : o.values) CHECK(std::abs(e) <= largest * (1 + 1e-5));
  for (const double e : lse.values) CHECK(std::isfinite(e));
}

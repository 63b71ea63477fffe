// flashsim exercise and flashsim grade as students and staff meet them.
#include "tests/cli/run_flashsim.h"

using namespace flashsim::testing;

TEST_CASE("exercise: from the list to a hint") {
  const Folder folder;
  const std::string work = folder / "work";
  const Result list = flashsim_run("exercise list");
  CHECK(list.code == 0);
  CHECK(contains(list.out, "  3  schedule"));
  CHECK(Json::parse(flashsim_run("exercise list --json").out)["exercises"].size() == 12);

  const Result start = flashsim_run("exercise start 3 '" + work + "'");
  CHECK(start.code == 0);
  CHECK(contains(start.out, "# Exercise 3"));
  CHECK(contains(contents(work + "/03_tiled_forward.cpp"), "TODO"));
  const Result again = flashsim_run("exercise start 3 '" + work + "'");
  CHECK(again.code == 3);
  CHECK(contains(again.err, "is there already"));

  CHECK(contains(flashsim_run("exercise hint '" + work + "'").out, "hint 1 of 3"));
  CHECK(contains(flashsim_run("exercise hint '" + work + "'").out, "hint 2 of 3"));
  CHECK(contains(flashsim_run("exercise hint '" + work + "' --level 3").out, "hint 3 of 3"));
  CHECK(contains(flashsim_run("exercise reset '" + work + "'").out, "before-reset-1"));

  const Result check = flashsim_run("exercise check '" + work + "'");
  CHECK(check.code == 1);
  CHECK(contains(check.out, "0 of 10"));
  CHECK(contains(check.out, "skeleton"));
}

TEST_CASE("exercise: what is missing or wrong is said") {
  const Folder folder;
  CHECK(flashsim_run("exercise").code == 2);
  CHECK(flashsim_run("exercise start 3").code == 2);
  CHECK(contains(flashsim_run("exercise start 99 x").err, "12"));
  CHECK(contains(flashsim_run("exercise chekc x").err, "check"));
  CHECK(contains(flashsim_run("exercise check '" + (folder / "none") + "'").err, "not a folder"));
  CHECK(flashsim_run("exercise bundle '" + (folder / "class") + "'").code == 0);
  CHECK(flashsim_run("exercise bundle '" + (folder / "class") + "'").code == 3);
}

TEST_CASE("exercise watch ends when all passes") {
  const Folder folder;
  const std::string work = folder / "work";
  REQUIRE(flashsim_run("exercise start 1 '" + work + "'").code == 0);
  // The key arrives while it watches.
  const Result watch = shell("(sleep 3; cp lessons/keys/01_online_softmax.cpp '" + work +
                             "/') & timeout 120 '" FLASHSIM_EXECUTABLE "' exercise watch '" + work + "'");
  CHECK(watch.code == 0);
  CHECK(contains(watch.out, "0 of 10"));
  CHECK(contains(watch.out, "10 of 10"));
}

TEST_CASE("grade: every format says the same") {
  const std::string command = "grade lessons/keys --exercises 1,10";
  const Result text = flashsim_run(command);
  CHECK(text.code == 0);
  CHECK(contains(text.out, "keys: 20 of 20 points"));
  CHECK(contains(text.err, "--seed"));
  const Json json = Json::parse(flashsim_run(command + " --json").out);
  CHECK(json["schema_version"] == 1);
  CHECK(json["submissions"][0]["earned"] == 20);
  CHECK(json["submissions"][0]["exercises"][0]["checks"].size() == 6);
  const Json scope = Json::parse(flashsim_run(command + " --format gradescope").out);
  CHECK(scope["score"] == 20);
  CHECK(scope["tests"].size() == 11);
  const std::string junit = flashsim_run(command + " --format junit").out;
  CHECK(contains(junit, "<testsuites name=\"flashsim grade\" tests=\"11\" failures=\"0\""));
  CHECK(contains(flashsim_run(command + " --format csv").out, "\nkeys,10,10,20,20\n"));
}

TEST_CASE("grade: a class, a missing file and a secret") {
  const Folder folder;
  std::filesystem::create_directories(folder / "class/ada");
  std::filesystem::create_directories(folder / "class/<b&b>");
  std::filesystem::copy_file(FLASHSIM_SOURCE_DIR "/lessons/keys/01_online_softmax.cpp",
                             folder / "class/ada/01_online_softmax.cpp");
  std::ofstream(folder / "secret") << "a secret\n";
  const std::string command =
      "grade '" + (folder / "class") + "' --each -x 1 --seed-file '" + (folder / "secret") + "'";
  const Result csv = flashsim_run(command + " --format csv");
  CHECK(csv.code == 1);
  CHECK(contains(csv.out, "\n<b&b>,0,0,10\nada,10,10,10\n"));
  const Result json = flashsim_run(command + " --json");
  CHECK_FALSE(contains(json.out + json.err, "a secret"));
  CHECK(Json::parse(json.out)["seed_fingerprint"] != "none");
  CHECK(contains(flashsim_run(command + " --format junit").out, "&lt;b&amp;b&gt;"));
  CHECK(flashsim_run("grade '" + (folder / "none") + "'").code == 3);
  CHECK(flashsim_run("grade '" + (folder / "class") + "'").code == 3);
  CHECK(flashsim_run(command + " --format gradescope").code == 2);
  CHECK(flashsim_run("grade lessons/keys -x 3-1").code == 2);
}

TEST_CASE("grade: the same submission gives the same bytes, whoever grades it, where and when") {
  // Everything that a report can be about: right, untouched, wrong, not compiling, not linking, crashing.
  const Folder folder;
  const std::string keys = FLASHSIM_SOURCE_DIR "/lessons/keys/";
  const auto submit = [&](const std::string& where) {
    std::filesystem::create_directories(folder / (where + "/ada"));
    const auto file = [&](const char* name) { return std::ofstream(folder / (where + "/ada/" + name)); };
    const auto key = [&](const char* name) { return contents(keys + name); };
    file("01_online_softmax.cpp") << key("01_online_softmax.cpp");
    REQUIRE(flashsim_run("exercise start 4 '" + (folder / (where + "/ada")) + "'").code == 0);
    std::string merge = key("09_decoding_merge.cpp");
    const std::size_t at = merge.find("sm.scale_rows(Os, weight)");
    REQUIRE(at != std::string::npos);
    file("09_decoding_merge.cpp") << merge.replace(at, 25, "Os");
    file("03_tiled_forward.cpp") << key("03_tiled_forward.cpp")
                                 << "nonsense\xff;\nasm(\"no such instruction\");\n";
    file("05_ragged_tails.cpp") << key("05_ragged_tails.cpp") << "void nowhere(); int x = (nowhere(), 1);\n";
    file("10_choose_tiling.cpp")
        << "#include \"lessons/exercises/given/tiling.h\"\n#include <cstdlib>\nTiling choose(const "
           "Problem&, std::int64_t) { std::abort(); }\n";
  };
  submit("first");
  submit("a/second/place");
  std::filesystem::create_directories(folder / "tmp");
  std::filesystem::create_directories(folder / "home");
  for (const std::string format : {"json", "junit", "gradescope", "csv"}) {
    CAPTURE(format);
    const std::string rest = "/ada' -x 1,3-5,9,10 --seed s --format " + format;
    const Result once = flashsim_run("grade '" + (folder / "first") + rest);
    // Another place, folder for temporary files, home, user's environment; and two at once, which is a load.
    const std::string other = "grade '" + (folder / "a/second/place") + rest;
    const Result again =
        shell("flashsim " + other + " > /dev/null 2>&1 & flashsim " + other + "; code=$?; wait; exit $code",
              "TMPDIR='" + (folder / "tmp") + "' HOME='" + (folder / "home") +
                  "' USER=somebody LANG=C CPATH=/nonsense LD_BIND_NOW=1");
    CHECK(once.code == 1);
    CHECK(again.code == 1);
    CHECK(once.out == again.out);
    CHECK_FALSE(contains(once.out, folder / ""));
    CHECK_FALSE(contains(once.out, "/tmp/"));
    CHECK(once.out.size() > 100);  // a heading and a line, at least
  }
  CHECK(std::filesystem::is_empty(folder / "tmp"));
}

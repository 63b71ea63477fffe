// Skeletons compile and fail by design, keys pass, and no key is in what students get.
#include "lessons/exercises/exercise.h"

#include <algorithm>
#include <sstream>

#include "tests/lessons/submissions.h"

using namespace flashsim;
using namespace flashsim::testing;
using lessons::Exercise;

TEST_CASE("every skeleton compiles, and earns nothing") {
  for (const Exercise& e : lessons::exercises()) {
    if (e.kind == lessons::Kind::cuda) continue;
    CAPTURE(e.name);
    const Folder folder;
    lessons::start_exercise(e, folder.path());
    const lessons::ExerciseGrade g = lessons::grade_exercise(e, folder.path(), quick());
    INFO(all_text(g));
    CHECK(g.submitted);
    CHECK(g.problem.find("skeleton") != std::string::npos);  // and no compiler's message in its place
    CHECK(g.points() == doctest::Approx(10));
    CHECK(g.earned() == 0);
    CHECK_FALSE(g.passed());
  }
}

TEST_CASE("every key earns all points, with the inputs students see and with secret ones") {
  for (const Exercise& e : lessons::exercises()) {
    if (e.kind == lessons::Kind::cuda) continue;
    CAPTURE(e.name);
    REQUIRE(fs::exists(key_of(e)));
    const Folder folder;
    fs::copy_file(key_of(e), folder.path() / e.file());
    const lessons::ExerciseGrade g =
        lessons::grade_exercise(e, folder.path(), quick(lessons::seed_of("a secret")));
    INFO(all_text(g));
    CHECK(g.passed());
    CHECK(g.earned() == doctest::Approx(10));
  }
}

TEST_CASE("every exercise has a text, one TODO and graded hints") {
  for (const Exercise& e : lessons::exercises()) {
    CAPTURE(e.name);
    const std::string skeleton(e.skeleton());
    const std::size_t first = skeleton.find("TODO");
    CHECK(first != std::string::npos);
    CHECK(skeleton.find("TODO", first + 1) == std::string::npos);
    CHECK(e.text().find("# Exercise " + std::to_string(e.number)) == 0);
    const std::vector<std::string> hints = e.hints();
    CHECK(hints.size() >= 3);
    for (const std::string& hint : hints) CHECK(hint.size() > 40);
    CHECK(hints.front() != hints.back());
  }
}

TEST_CASE("no key is in the bundle") {
  const std::vector<lessons::BundleFile> bundle = lessons::bundle_files();
  for (const lessons::BundleFile& f : bundle) {
    CAPTURE(f.path);
    CHECK(f.path.find("key") == std::string::npos);
    CHECK(f.path.find("grader") == std::string::npos);
    // Skeletons and texts, the front page, and headers to read: nothing else.
    const bool listed =
        f.path == "README.md" || f.path.find("read/") == 0 ||
        std::any_of(lessons::exercises().begin(), lessons::exercises().end(),
                    [&](const Exercise& e) { return f.path == e.file() || f.path == e.text_file(); });
    CHECK(listed);
    if (f.path.find("read/") == 0) CHECK(f.path.substr(f.path.size() - 2) == ".h");
  }
  // No file is a key, and nothing that a key adds to its skeleton stands in what students get for that
  // exercise.
  for (const Exercise& e : lessons::exercises()) {
    CAPTURE(e.name);
    const std::string key = text_of(key_of(e));
    std::vector<std::string> added;
    std::istringstream lines(key);
    for (std::string line; std::getline(lines, line);)
      if (line.size() > 12 && e.skeleton().find(line) == std::string_view::npos) added.push_back(line + "\n");
    REQUIRE_FALSE(added.empty());
    const std::string body = key.substr(key.find('\n', key.rfind("#include")) + 1);
    REQUIRE(body.size() > 200);
    for (const lessons::BundleFile& f : bundle) {
      CAPTURE(f.path);
      CHECK(f.text.find(body) == std::string::npos);
      if (f.path == e.file() || f.path == e.text_file())
        for (const std::string& line : added) CHECK_MESSAGE(f.text.find(line) == std::string::npos, line);
    }
  }
}

TEST_CASE("the bundle is written as a folder and as an archive, the same each time") {
  const Folder folder;
  lessons::write_bundle(folder.path() / "class");
  CHECK(text_of(folder.path() / "class/03_tiled_forward.cpp") == lessons::find_exercise(3)->skeleton());
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "class"))
    files += entry.is_regular_file();
  CHECK(files == lessons::bundle_files().size());
  CHECK_THROWS_AS(lessons::write_bundle(folder.path() / "class"), lessons::WorkspaceError);
  lessons::write_bundle(folder.path() / "a.tar");
  lessons::write_bundle(folder.path() / "b.tar");
  CHECK(text_of(folder.path() / "a.tar") == text_of(folder.path() / "b.tar"));
  CHECK(text_of(folder.path() / "a.tar").find("exercises/03_tiled_forward.cpp") != std::string::npos);
}

TEST_CASE("start, reset and hints leave the student's work alone") {
  const Folder folder;
  const Exercise& e = *lessons::find_exercise(3);
  lessons::start_exercise(e, folder.path());
  CHECK_THROWS_AS(lessons::start_exercise(e, folder.path()), lessons::WorkspaceError);
  std::ofstream(folder.path() / e.file()) << "mine";
  const std::string kept = lessons::reset_exercise(e, folder.path());
  CHECK(text_of(folder.path() / kept) == "mine");
  CHECK(text_of(folder.path() / e.file()) == e.skeleton());
  CHECK(lessons::exercises_in(folder.path()).size() == 1);
  CHECK_THROWS_AS(lessons::exercises_in(folder.path() / "nowhere"), lessons::WorkspaceError);
  for (int expected : {0, 1, 2, 2}) CHECK(lessons::take_hint(e, folder.path()) == expected);
  CHECK(lessons::take_hint(*lessons::find_exercise(4), folder.path()) == 0);
}

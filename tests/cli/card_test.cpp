// What was measured of a card's L2: where it is kept, that compare uses it and says so, and what happens to
// files that are something else.
#include "tests/cli/run_flashsim.h"

#include "simulator/cli/card_data.h"
#include "simulator/cli/errors.h"
#include "simulator/cli/measure_card.h"
#include "simulator/compare/card_record.h"

using namespace flashsim;
using namespace flashsim::testing;

namespace {

Card small_card() {
  Card c;
  c.device = "NVIDIA H200";
  c.date = "2026-12-01";
  c.l2_bytes = 2 << 20;
  c.partitions = 2;
  c.repeats = 20;
  c.sides = {{0, 0}, {0, 1, 1, 0}};
  return c;
}

constexpr const char* compare = "compare --recorded --kernel fa2 --preset ladder";

}  // namespace

TEST_CASE("compare uses what was measured of this card, says so, and can ignore it") {
  const Folder folder;
  const std::string home = "COLUMNS=200 XDG_DATA_HOME='" + (folder / "") + "'";  // wide: paths on one line
  const Result shipped = flashsim_run(compare, home);
  CHECK_MESSAGE(shipped.code == 0, shipped.err);
  CHECK(contains(shipped.out, "L2 as measured on NVIDIA H200"));
  CHECK(contains(shipped.out, "(shipped)"));

  const std::string path = folder / "flashsim/cards/nvidia-h200.json";
  cli::store_card(small_card(), path);  // makes the folders
  const Result stored = flashsim_run(compare, home);
  CHECK_MESSAGE(stored.code == 0, stored.err);
  CHECK(contains(stored.out, "L2 as measured on NVIDIA H200, 2026-12-01 (" + path + ")"));
  CHECK(stored.out != shipped.out);

  const Result ignored = flashsim_run(std::string(compare) + " --no-card", home);
  CHECK(ignored.code == 0);
  CHECK(contains(ignored.out, "--no-card"));
  const Folder elsewhere;
  const Result named =
      flashsim_run(std::string(compare) + " --card " + path, "XDG_DATA_HOME='" + (elsewhere / "") + "'");
  CHECK(named.code == 0);
  CHECK(contains(named.out, path));
  const Json j = Json::parse(flashsim_run(std::string(compare) + " --json", home).out);
  CHECK(contains(j.at("card").get<std::string>(), path));
  // A card that nobody measured.
  CHECK(contains(flashsim_run(std::string(compare) + " --gpu a100-80", home).out, "was not measured"));
}

TEST_CASE("data that cannot be read end with 3, and the message says what to do") {
  const Folder folder;
  const std::string home = "XDG_DATA_HOME='" + (folder / "") + "'";
  std::filesystem::create_directories(folder / "flashsim/cards");
  std::ofstream(folder / "flashsim/cards/nvidia-h200.json") << "{\"schema_version\": 1, \"device\"";
  Result r = flashsim_run(compare, home);
  CHECK(r.code == 3);
  CHECK(r.out.empty());
  CHECK(contains(r.err, "nvidia-h200.json"));
  CHECK(contains(r.err, "measure again with `flashsim sweep-l2`"));
  CHECK(contains(r.err, "--no-card"));
  CHECK(flashsim_run(std::string(compare) + " --no-card", home).code == 0);
  r = flashsim_run(std::string(compare) + " --card " + (folder / "none.json"));
  CHECK(r.code == 3);
  CHECK(contains(r.err, "sweep-l2 --store"));
  CHECK(flashsim_run(std::string(compare) + " --no-card --card x.json").code == 2);
  CHECK(flashsim_run("sweep-l2 --simulate --store x.json").code == 2);
  CHECK(flashsim_run("sweep-l2 --store x.json --no-store").code == 2);
}

TEST_CASE("a place that cannot be written to is named before anything is measured") {
  const Folder folder;
  std::ofstream(folder / "file") << "in the way";
  CHECK_THROWS_AS(cli::prepare_card_file(folder / "file/cards/x.json"), cli::InputError);
  CHECK_THROWS_AS(cli::store_card(small_card(), folder / "file/cards/x.json"), cli::InputError);
  std::filesystem::create_directories(folder / "folder.json");
  CHECK_THROWS_AS(cli::prepare_card_file(folder / "folder.json"), cli::InputError);
  cli::prepare_card_file(folder / "new/card.json");
  CHECK(std::filesystem::is_empty(folder / "new"));  // prepared, and nothing left behind
  cli::store_card(small_card(), folder / "new/card.json");
  CHECK(card_from_json(contents(folder / "new/card.json")).sides == small_card().sides);
}

TEST_CASE("the sides of launches come from the SMs that they run on") {
  std::vector<gpu::SmLatencies> waits;
  for (const int sm : {7, 3, 5, 9}) {
    const bool left = sm == 7 || sm == 9;
    waits.push_back(
        {sm, left ? std::vector<double>{200, 300, 200, 300} : std::vector<double>{300, 200, 300, 200}});
  }
  CHECK(cli::sides_of_launches(waits, {{7, 9}, {3, 7, 5, 9}}) ==
        std::vector<std::vector<int>>{{0, 0}, {1, 0, 1, 0}});
  CHECK_THROWS_AS(cli::sides_of_launches(waits, {{1}}), std::invalid_argument);
  for (gpu::SmLatencies& w : waits) w.cycles = {200, 200, 200, 200};
  CHECK(cli::sides_of_launches(waits, {{7, 9}}).empty());  // one partition
}

// flashsim trace: its text, its JSON, its Chrome trace and its picture; what it refuses.
#include <algorithm>
#include <map>
#include <set>

#include "simulator/cli/style.h"
#include "tests/cli/run_flashsim.h"

using namespace flashsim::testing;

namespace {

const std::string small = "trace --n 256 --d 64 --heads 2 --gpu h100";

/// A lane's signs, by the lane's name within the group whose name begins so.
std::string lane(const std::string& text, const std::string& group, const std::string& name) {
  bool inside = false;
  for (const std::string& line : lines_of(text)) {
    if (!line.empty() && line[0] != ' ') inside = line.rfind(group, 0) == 0;
    if (inside && line.rfind("  " + name + " ", 0) == 0) return line.substr(15);
  }
  FAIL("no lane ", group, " / ", name, " in\n", text);
  return {};
}

}  // namespace

TEST_CASE("text: lanes of warpgroups and units, at most as wide as the terminal") {
  for (const int width : {80, 200}) {
    const Result r = flashsim_run("trace --n 512", "COLUMNS=" + std::to_string(width) + " LC_ALL=C.UTF-8");
    CHECK(r.code == 0);
    CHECK(r.err.empty());
    for (const std::string& line : lines_of(r.out))
      CHECK_MESSAGE(flashsim::cli::display_width(line) <= width, line);
    CHECK(contains(r.out, "FlashAttention-3 (Shah et al. 2024), forward"));
    CHECK(contains(lane(r.out, "thread block 0, producer", "copies"), "K"));
    CHECK(contains(lane(r.out, "thread block 0, warpgroup 1", "products"), "S"));
    CHECK(contains(lane(r.out, "thread block 0, warpgroup 2", "products"), "O"));
    CHECK(contains(lane(r.out, "thread block 0, warpgroup 2", "rows"), "e"));
    CHECK(contains(lane(r.out, "the SM", "tensor cores"), "%"));
    std::string words = r.out;
    std::replace(words.begin(), words.end(), '\n', ' ');
    CHECK(contains(words, "The tensor cores stand still for"));
  }
  const Result ascii = flashsim_run("trace --n 512 --algorithm fa2", "LC_ALL=C");
  CHECK(std::all_of(ascii.out.begin(), ascii.out.end(),
                    [](char c) { return static_cast<unsigned char>(c) < 128; }));
  // In FA2's text nothing overlaps: a thread block does one thing at a time.
  const std::string products = lane(ascii.out, "thread block 0", "products"),
                    rows = lane(ascii.out, "thread block 0", "rows");
  for (std::size_t c = 0; c < std::min(products.size(), rows.size()); ++c)
    CHECK_MESSAGE((products[c] == '.' || rows[c] == '.'), c);
}

TEST_CASE("several kernels: the longest is drawn, all are listed") {
  const Result r = flashsim_run("trace --algorithm fa2 --backward --n 256");
  CHECK(r.code == 0);
  CHECK(contains(r.out, "kernel \"backward\""));
  CHECK(contains(r.out, "prepare"));
  CHECK(contains(r.out, "convert dQ"));
  CHECK(contains(flashsim_run("trace --algorithm fa2 --backward --n 256 --kernel prepare").out,
                 "kernel \"prepare\""));
}

TEST_CASE("JSON: units, thread blocks and, when asked for, every operation") {
  const Json j = json_of(small);
  const Json& k = j.at("kernels").at(0);
  CHECK(k.at("name") == "forward");
  CHECK(k.at("thread_blocks") == 4);
  CHECK(k.at("bound_clocks").get<double>() <= k.at("clocks").get<double>());
  CHECK(k.at("clocks").get<double>() <= k.at("serial_clocks").get<double>());
  CHECK(k.at("units").size() == 4);
  CHECK_FALSE(k.contains("events"));
  const Json events = json_of(small + " --events").at("kernels").at(0).at("events");
  std::map<std::string, double> busy;
  for (const Json& e : events) {
    CHECK(e.at("end").get<double>() <= k.at("clocks").get<double>());
    busy[e.at("unit")] += e.at("end").get<double>() - e.at("begin").get<double>();
  }
  for (const Json& u : k.at("units"))
    CHECK(std::abs(busy[u.at("name")] - u.at("busy_clocks").get<double>()) <= 1e-3);
}

TEST_CASE("Chrome trace: complete events that do not cross, on named tracks") {
  for (const std::string more : {"", " --algorithm standard --resident 3 --blocks 5", " --sharing equal"}) {
    const Result r = flashsim_run(small + " --format chrome" + more);
    REQUIRE_MESSAGE(r.code == 0, r.err);
    const Json trace = Json::parse(r.out);
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
    std::set<std::pair<int, int>> named;
    for (const Json& e : trace.at("traceEvents")) {
      const std::pair<int, int> track = {e.at("pid"), e.at("tid")};
      if (e.at("ph") == "M") {
        if (e.at("name") == "thread_name") named.insert(track);
        continue;
      }
      CHECK(e.at("ph") == "X");
      CHECK(e.at("dur").get<double>() >= 0);
      tracks[track].push_back({e.at("ts"), e.at("ts").get<double>() + e.at("dur").get<double>()});
    }
    CHECK(tracks.size() >= 4);
    for (auto& [track, events] : tracks) {
      CHECK(named.count(track) == 1);
      std::sort(events.begin(), events.end());
      for (std::size_t i = 1; i < events.size(); ++i) CHECK(events[i].first >= events[i - 1].second - 1e-6);
    }
  }
}

TEST_CASE("picture and file") {
  const Folder folder;
  CHECK(flashsim_run(small + " --picture " + (folder / "t.svg")).code == 0);
  const std::string svg = contents(folder / "t.svg");
  CHECK(svg.rfind("<svg ", 0) == 0);
  CHECK(contains(svg, "warpgroup 2"));
  CHECK(contains(svg, "</svg>"));
  CHECK(flashsim_run(small + " --format chrome --output " + (folder / "t.json")).code == 0);
  CHECK(Json::parse(contents(folder / "t.json")).contains("traceEvents"));
  CHECK(flashsim_run(small + " --picture " + (folder / "t.csv")).code == 0);
  const std::vector<std::string> lines = lines_of(contents(folder / "t.csv"));
  CHECK(lines.front() == "block,role,unit,operation,begin,end");
  std::size_t events = 0;  // of the longest kernel, which is the one that is drawn
  double longest = 0;
  const Json json = json_of(small + " --events");
  for (const Json& k : json["kernels"])
    if (k["clocks"].get<double>() > longest) {
      longest = k["clocks"].get<double>();
      events = k["events"].size();
    }
  CHECK(events > 0);
  CHECK(lines.size() == 1 + events);
  CHECK(flashsim_run(small + " --picture " + (folder / "no/such/t.svg")).code == 3);
  CHECK(folder.files() == 3);
}

TEST_CASE("a schedule of the user's own") {
  const Json own = json_of(small + " --schedule tests/simulator/user_schedules/fa2.cpp --block 64"),
             ours = json_of(small + " --algorithm fa2 --block 64");
  CHECK(own.at("kernels").at(0).at("clocks") == ours.at("kernels").at(0).at("clocks"));
}

TEST_CASE("what cannot be traced is refused") {
  struct Error {
    std::string arguments, message;
    int code = 2;
  };
  for (const Error& e : std::vector<Error>{
           {"--algorithm fa9", "expected one of"},
           {"--algorithm fa3 --backward", "no backward pass"},
           {"--algorithm fa2 --schedule x.cpp", "give one of them"},
           {"--schedule none.cpp", "is not a file", 3},
           {"--n 0", "expected a whole number"},
           {"--n 64 --block 128", "only 64 queries"},
           {"--dtype e4m3 --gpu a100-80", "no tensor cores for e4m3"},
           {"--gpu tpu", "expected one of"},
           {"--resident 0", "expected a whole number"},
           {"--blocks many", "not a number"},
           {"--latency -1", "--latency is -1"},
           {"--latency nan", "--latency is nan"},
           {"--from 10 --to 5", "expected --from to come first"},
           {"--from 1e9", "expected --from to come first"},
           {"--kernel nope", "expected one of forward"},
           {"--picture t.gif", "ends in .svg, .png or .csv"},
           {"--sharing fair", "expected one of turns, equal"},
           {"--json --format chrome", "give one of them"},
           {"--algorithm fa2 --n 16K --block 16 --heads 32 --blocks 100000", "two million operations"}}) {
    CAPTURE(e.arguments);
    const Result r = flashsim_run("trace " + e.arguments);
    CHECK(r.code == e.code);
    CHECK(r.out.empty());
    CHECK_MESSAGE(contains(r.err, e.message), r.err);
  }
}

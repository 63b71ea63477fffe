// flashsim compare and measure without a GPU: comparison with records, reports, errors.
#include "tests/cli/run_flashsim.h"

using namespace flashsim::testing;

namespace {

constexpr const char* no_gpu = "CUDA_VISIBLE_DEVICES=";

/// FlashAttention-2 on 2 heads of 1,024 x 64, tiles of 128 rows of Q: what its schedule requests, and each
/// tensor once from and to DRAM.
Json fa2_record() {
  constexpr std::int64_t u = 2 * 1024 * 64 * 2, rows = 2 * 1024;
  return {{"kernel", "fa2"},
          {"pass", "forward"},
          {"problem",
           {{"batch", 1},
            {"heads_q", 2},
            {"heads_kv", 2},
            {"seqlen_q", 1024},
            {"seqlen_k", 1024},
            {"head_dim", 64},
            {"dtype", "fp16"}}},
          {"tiling", {{"block_q", 128}, {"block_k", 64}, {"stages", 1}, {"warps", 4}}},
          {"observed",
           {{"requested_read", (1 + 2 * 8) * u},
            {"requested_written", u + 4 * rows},
            {"dram_read", 3 * u},
            {"dram_written", 0},
            {"left_dirty", u + 4 * rows},
            {"seconds", 1e-5}}}};
}
/// A file of one record, changed by `change`.
template <class Change>
std::string records_file(const Folder& folder, Change change) {
  Json record = fa2_record();
  change(record);
  const Json all = {{"schema_version", 1},
                    {"device", "NVIDIA H200"},
                    {"driver", "13.0"},
                    {"cuda", "13.0"},
                    {"date", "2026-11-30T03:00:00Z"},
                    {"commit", "0123abc"},
                    {"command", "flashsim measure --record x.json"},
                    {"records", Json::array({record})}};
  std::ofstream(folder / "records.json") << all.dump();
  return folder / "records.json";
}
std::string records_file(const Folder& folder) {
  return records_file(folder, [](Json&) {});
}

}  // namespace

TEST_CASE("a comparison with records says where they come from, and shows the differences") {
  const Folder folder;
  const Result r = flashsim_run("compare --records " + records_file(folder));
  CHECK_MESSAGE(r.code == 0, r.err);
  CHECK(contains(r.out, "recorded on NVIDIA H200, driver 13.0, CUDA 13.0, 2026-11-30T03:00:00Z ("));
  CHECK(contains(r.out, " days"));
  CHECK(contains(r.out, "commit 0123abc"));
  CHECK(contains(r.out, "+0.00 %"));
  CHECK_FALSE(contains(r.out, "  K"));
  const Result tensors = flashsim_run("compare --tensors --records " + records_file(folder));
  CHECK(contains(tensors.out, "  K"));
}

TEST_CASE("where launches differ by more than 1 % their range is shown") {
  const Folder folder;
  constexpr double dram = 786432;  // what the record has
  const auto with = [&](double most) {
    return " --records " + records_file(folder, [&](Json& record) {
             record["launches"] = 3;
             record["dram_least"] = dram;
             record["dram_most"] = most;
           });
  };
  const Result far =
      flashsim_run("compare" + with(1.3 * dram), "COLUMNS=120");  // 80 columns have no room for it
  CHECK_MESSAGE(far.code == 0, far.err);
  CHECK(contains(far.out, "launches 786.4 kB to 1.022 MB"));
  const Json json = Json::parse(flashsim_run("compare --json" + with(1.3 * dram)).out);
  CHECK(json["cases"][0]["launches"] == 3);
  CHECK(json["cases"][0]["measured_dram_least"] == dram);
  CHECK(json["cases"][0]["measured_dram_most"] == 1.3 * dram);
  CHECK_FALSE(contains(flashsim_run("compare" + with(1.009 * dram), "COLUMNS=120").out, "launches"));
}

TEST_CASE("as JSON and CSV: every tensor, level and direction") {
  const Folder folder;
  const Json j = json_of("compare --records " + records_file(folder));
  CHECK(j.at("live") == false);
  CHECK(j.at("device") == "NVIDIA H200");
  REQUIRE(j.at("cases").size() == 1);
  const Json& c = j.at("cases")[0];
  CHECK(c.at("requested_fault") == "");
  CHECK(c.at("compulsory_bytes") == 4 * 2 * 1024 * 64 * 2);
  int totals = 0;
  for (const Json& row : c.at("rows")) {
    if (row.at("tensor") != "all") {
      CHECK(row.at("measured").is_null());
      continue;
    }
    ++totals;
    if (row.at("measured") == 0) continue;
    CHECK(std::abs(row.at("difference").get<double>()) <= 1e-9);
  }
  CHECK(totals == 4);
  const Result csv = flashsim_run("compare --csv --records " + records_file(folder));
  const std::vector<std::string> lines = lines_of(csv.out);
  CHECK(lines.size() == 1 + c.at("rows").size());
  CHECK(lines[0].rfind("kernel,pass,batch", 0) == 0);
  for (const std::string& line : lines)
    CHECK(std::count(line.begin(), line.end(), ',') == std::count(lines[0].begin(), lines[0].end(), ','));
}

TEST_CASE("the bar chart") {
  const Folder folder;
  const std::string svg = folder / "bars.svg";
  CHECK(flashsim_run("compare --records " + records_file(folder) + " --chart " + svg).code == 0);
  const std::string text = contents(svg);
  CHECK(text.rfind("<svg", 0) == 0);
  CHECK(contains(text, "</svg>"));
  CHECK(contains(text, "class=\"measured\""));
  CHECK(contains(text, "fa2"));
  const Result csv =
      flashsim_run("compare --records " + records_file(folder) + " --chart " + (folder / "bars.csv"));
  CHECK(csv.code == 0);
  CHECK(contents(folder / "bars.csv") == flashsim_run("compare --csv --records " + records_file(folder)).out);
  CHECK(flashsim_run("compare --chart bars.gif").code == 2);
}

TEST_CASE("records are chosen by kernel, pass and problem") {
  const Folder folder;
  const std::string records = " --records " + records_file(folder);
  CHECK(flashsim_run("compare --kernel fa2 --batch 1 --heads 2 --n 1024 --d 64" + records).code == 0);
  for (const char* other : {"--kernel fa1", "--backward", "--kernel fa2 --n 2048", "--suite bytes-v1"}) {
    const Result r = flashsim_run(std::string("compare ") + other + records);
    CAPTURE(other);
    CHECK(r.code == 3);
    CHECK(contains(r.err, "nothing to compare"));
  }
}

TEST_CASE("a kernel without a schedule is left out, and named") {
  const Folder folder;
  const Result r = flashsim_run("compare --records " +
                                records_file(folder, [](Json& record) { record["kernel"] = "softmax"; }));
  CHECK(contains(r.err, "left out: softmax"));
  CHECK(contains(r.err, "no schedule describes softmax"));
}

TEST_CASE("files that are no records are input errors that name the place") {
  const Folder folder;
  Result r = flashsim_run("compare --records " + (folder / "none.json"));
  CHECK(r.code == 3);
  CHECK(contains(r.err, "flashsim measure --record"));
  r = flashsim_run("compare --records " +
                   records_file(folder, [](Json& record) { record["problem"]["head_dim"] = -1; }));
  CHECK(r.code == 3);
  CHECK(contains(r.err, "record 1: problem:"));
  std::ofstream(folder / "text") << "kernel: fa2\n";
  CHECK(flashsim_run("compare --records " + (folder / "text")).code == 3);
}

TEST_CASE("somebody else's kernel, as Nsight Compute counted it") {
  const Folder folder;
  // Q, K and V of 2 heads of 1,024 x 64: 8 blocks of rows read K and V.
  std::ofstream(folder / "ncu.csv")
      << "==PROF== Connected to process 7\n"
         "\"ID\",\"Kernel Name\",\"l1tex__m_xbar2l1tex_read_bytes.sum\",\"dram__bytes_read.sum\"\n"
         "\"\",\"\",\"Mbyte\",\"Kbyte\"\n"
         "\"0\",\"flash_fwd<128, 64>\",\"4.456448\",\"786.432\"\n"
         "\"1\",\"something else\",\"1\",\"1\"\n";
  const std::string problem = " --kernel fa2 --batch 1 --heads 2 --n 1024 --d 64 --block-q 128",
                    report = " --ncu " + (folder / "ncu.csv");
  const Result r = flashsim_run("compare --ncu-kernel flash" + problem + report);
  CHECK_MESSAGE(r.code == 0, r.err);
  CHECK(contains(r.out, "Nsight Compute"));
  CHECK(contains(r.out, "+0.00 %"));
  Result wrong = flashsim_run("compare --ncu-kernel other" + problem + report);
  CHECK(wrong.code == 3);
  CHECK(contains(wrong.err, "flash_fwd<128, 64>; something else"));
  CHECK(flashsim_run("compare" + report).code == 2);  // of which kernel?
  CHECK(flashsim_run("compare --ncu-kernel flash" + problem).code == 2);
  CHECK(flashsim_run("compare --ncu " + (folder / "none") + problem).code == 3);
  std::ofstream(folder / "text") << "no CSV\n";
  wrong = flashsim_run("compare --ncu " + (folder / "text") + problem);
  CHECK(wrong.code == 3);
  CHECK(contains(wrong.err, "ncu --csv"));
}

TEST_CASE("usage errors") {
  const Folder folder;
  const std::string records = " --records " + records_file(folder);
  for (const std::string& arguments :
       {"--live" + records, std::string("--suite bytes-v0"), std::string("--preset x"),
        "--order last-to-first" + records, "--gpu abacus" + records, std::string("--seeds 0"),
        "--repeats 5" + records, std::string("--repeats 0")}) {
    const Result r = flashsim_run("compare " + arguments, no_gpu);
    CAPTURE(arguments);
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    CHECK(contains(r.err, "error:"));
  }
  CHECK(flashsim_run("measure --suite bytes-v0", no_gpu).code == 2);
}

TEST_CASE("without a GPU, measuring ends with 4 and the reason") {
  for (const char* command : {"measure", "measure --suite bytes-v1", "compare --live", "sweep-l2"}) {
    const Result r = flashsim_run(command, no_gpu);
    CAPTURE(command);
    CHECK(r.code == 4);
    CHECK(r.out.empty());
    CHECK(contains(r.err, "error:"));
  }
}

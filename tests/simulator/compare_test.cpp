// Records, the comparison of simulated with measured bytes, and the committed suite.
#include "simulator/compare/compare.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>

#include "simulator/compare/ncu.h"
#include "simulator/compare/settled.h"
#include "simulator/compare/suite.h"

using namespace flashsim;

namespace {

Record record(const char* kernel, int n, bool causal = false) {
  Record r;
  r.what.kernel = kernel;
  r.what.problem.heads_q = r.what.problem.heads_kv = 4;
  r.what.problem.seqlen_q = r.what.problem.seqlen_k = n;
  r.what.problem.head_dim = 64;
  r.what.problem.causal = causal;
  r.tiling.block_q = 128;
  r.tiling.order = BlockOrder::last_to_first;
  return r;
}
/// A record whose counters say exactly what the simulator does.
Record perfect(Record r) {
  const L2Traffic t = compare(r).total();
  r.observed.requested_read = t.requested_read;
  r.observed.requested_written = t.requested_written;
  r.observed.dram_read = t.dram_read;
  r.observed.dram_written = t.dram_written;
  r.observed.left_dirty = t.left_dirty;
  return r;
}

}  // namespace

TEST_CASE("records survive being written and read") {
  Records all;
  all.device = "NVIDIA H200";
  all.date = "2026-11-30";
  all.command = "flashsim measure --record \"x\"";
  all.records = {record("fa2", 1000, true), record("decoding", 4096)};
  all.records[0].what.backward = true;
  all.records[0].what.problem.window_left = 7;
  all.records[0].what.problem.dtype = Dtype::bf16;
  all.records[0].observed.dram_read = 123456789;
  all.records[0].observed.seconds = 1.25e-5;
  all.records[0].observed.fabric = std::numeric_limits<double>::quiet_NaN();
  all.records[1].what.variant = "x";
  all.records[1].tiling.num_splits = 8;
  all.records[1].tiling.late_blocks = 3;
  all.records[1].tiling.key_order = BlockOrder::last_to_first;
  all.records[1].tiling.split = WarpSplit::key;
  const Records back = records_from_json(to_json(all));
  CHECK(!back.tensors_apart);
  all.tensors_apart = true;
  CHECK(records_from_json(to_json(all)).tensors_apart);
  CHECK(back.device == all.device);
  CHECK(back.date == all.date);
  CHECK(back.command == all.command);
  REQUIRE(back.records.size() == 2);
  for (int i = 0; i < 2; ++i) {
    CHECK(back.records[i].what == all.records[i].what);
    CHECK(back.records[i].tiling == all.records[i].tiling);
  }
  CHECK(back.records[0].observed.dram_read == 123456789);
  CHECK(back.records[0].observed.seconds == 1.25e-5);
  CHECK(std::isnan(back.records[0].observed.fabric));
  CHECK(back.find(all.records[1].what) == &back.records[1]);
  CHECK(back.find(record("fa1", 128).what) == nullptr);
}

TEST_CASE("of several launches the one with the median of DRAM bytes counts, and the range is kept") {
  const Record r = record("fa2", 1024);
  const auto launch = [](double dram_read, double dram_written) {
    Observed o;
    o.requested_written = 1e9;
    o.dram_read = dram_read;
    o.dram_written = dram_written;
    return o;
  };
  const Observed five[] = {launch(50e6, 7e6), launch(40e6, 1e6), launch(60e6, 0), launch(41e6, 1e6),
                           launch(45e6, 3e6)};
  Record of_five = record_of(r.what, r.tiling, {std::begin(five), std::end(five)});
  CHECK(of_five.observed.dram_read == 45e6);
  CHECK(of_five.observed.dram_written == 3e6);
  CHECK(of_five.launches == 5);
  CHECK(of_five.dram_least == 41e6);
  CHECK(of_five.dram_most == 60e6);
  CHECK(of_five.varies());

  Records all;
  all.records = {of_five, record_of(r.what, r.tiling, {five[0]})};
  const std::string text = to_json(all);
  const Records back = records_from_json(text);
  CHECK(back.records[0].launches == 5);
  CHECK(back.records[0].dram_least == 41e6);
  CHECK(back.records[0].dram_most == 60e6);
  // One launch: as records were before, without a range.
  CHECK(text.find("launches") == text.rfind("launches"));
  CHECK(back.records[1].launches == 1);
  CHECK(std::isnan(back.records[1].dram_most));
  CHECK_FALSE(back.records[1].varies());

  std::string wrong = text;
  wrong.replace(wrong.find("\"dram_least\":41"), 15, "\"dram_least\":51");
  CHECK_THROWS_AS(records_from_json(wrong), RecordError);
  CHECK_THROWS_AS(record_of(r.what, r.tiling, {}), std::invalid_argument);
}

TEST_CASE("disturbed launches count only where there are no others") {
  const Record r = record("fa2", 1024);
  Observed fine, disturbed_one;
  fine.requested_written = disturbed_one.requested_written = 1e6;
  fine.dram_read = 2e6;
  disturbed_one.dram_read = 1e6;
  disturbed_one.dram_written = 9e6;  // more than was asked for
  REQUIRE(disturbed(disturbed_one));
  const Record mixed = record_of(r.what, r.tiling, {disturbed_one, fine, disturbed_one});
  CHECK(mixed.launches == 1);
  CHECK(mixed.observed.dram_read == 2e6);
  CHECK(disturbed(record_of(r.what, r.tiling, {disturbed_one, disturbed_one}).observed));
}

TEST_CASE("a median is known from values that agree, or from enough of them") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(settled({100e6}));
  CHECK(settled({100e6, 103e6, 101e6}));
  CHECK_FALSE(settled({100e6, 104e6, 101e6}));
  CHECK(settled({2e6, 3e6}));
  CHECK_FALSE(settled({2e6, 3.1e6}));
  CHECK_FALSE(settled({100e6, nan, 104e6}));
  CHECK(settled({nan}));
  // Standard error 1.25 s / sqrt(n): values 6 % apart need 8, values 50 % apart hundreds.
  CHECK_FALSE(settled({100e6, 106e6, 100e6, 106e6, 100e6, 106e6}));
  CHECK(settled({100e6, 106e6, 100e6, 106e6, 100e6, 106e6, 100e6, 106e6}));
  std::vector<double> wide;
  for (int i = 0; i < 30; ++i) wide.push_back(i % 2 == 0 ? 100e6 : 200e6);
  CHECK_FALSE(settled(wide));
}

TEST_CASE("files that are no records are refused, with the place") {
  const auto message = [](const std::string& text) -> std::string {
    try {
      records_from_json(text);
    } catch (const RecordError& e) {
      return e.what();
    }
    return {};
  };
  CHECK(message("not json").find("flashsim measure --record") != std::string::npos);
  CHECK(message("{}").find("schema_version") != std::string::npos);
  CHECK(message(R"({"schema_version": 99})").find("reads versions 1 and 2") != std::string::npos);
  CHECK(message(R"({"schema_version": 1, "device": "x", "records": [{"kernel": "fa2"}]})").find("record 1") ==
        0);
  Records all;
  all.records = {record("fa2", 128)};
  std::string text = to_json(all);
  text.replace(text.find("\"head_dim\":64"), 13, "\"head_dim\":-4");
  CHECK(message(text).find("record 1: problem:") == 0);
}

TEST_CASE("a comparison has every tensor and level, and measured totals") {
  const ByteComparison c = compare(perfect(record("fa2", 1024)));
  const auto row = [&](const char* tensor, Level level, ByteDirection direction) {
    for (const CompareRow& r : c.rows)
      if (r.tensor == tensor && r.level == level && r.direction == direction) return r;
    return CompareRow{};
  };
  const double u = 4.0 * 1024 * 64 * 2;
  CHECK(row("K", Level::requested, ByteDirection::read).simulated == 8 * u);
  CHECK(std::isnan(row("K", Level::requested, ByteDirection::read).difference()));
  CHECK(row("K", Level::dram, ByteDirection::read).simulated == doctest::Approx(u).epsilon(1e-9));
  CHECK(row("all", Level::requested, ByteDirection::read).simulated == 17 * u);
  CHECK(row("all", Level::requested, ByteDirection::read).difference() == 0);
  CHECK(row("all", Level::requested, ByteDirection::written).simulated == u + 4 * 1024 * 4);
  CHECK(c.flops == 4.0 * 4 * 1024 * 1024 * 64);
  CHECK(c.compulsory == 4 * u);
  CHECK(c.requested_fault().empty());
  CHECK(c.dram_error() == doctest::Approx(0));

  Record off = perfect(record("fa2", 1024));
  off.observed.requested_read *= 1.05;
  CHECK(compare(off).requested_fault().find("requested reads") == 0);
  off = perfect(record("fa2", 1024));
  off.observed.requested_written += 70'000;
  CHECK(compare(off).requested_fault().find("requested writes") == 0);
  off.observed.requested_read = std::numeric_limits<double>::quiet_NaN();
  CHECK(compare(off).requested_fault().find("measured none") != std::string::npos);
}

TEST_CASE("a pass of several kernels also has rows for each") {
  Record r = record("standard", 512);
  std::set<std::string> kernels;
  for (const CompareRow& row : compare(perfect(r)).rows) kernels.insert(row.kernel);
  CHECK(kernels == std::set<std::string>{"S = Q K^T", "P = softmax(S)", "O = P V", "all"});
}

TEST_CASE("kernels that no schedule describes are refused") {
  CHECK_THROWS_AS(compare(record("softmax", 128)), std::invalid_argument);  // neither safe nor online
  Record cublas = record("standard", 128);
  cublas.what.variant = "cublas";
  CHECK_THROWS_AS(compare(cublas), std::invalid_argument);
  Record backward = record("fa3", 128);
  backward.what.backward = true;
  CHECK_THROWS_AS(compare(backward), std::invalid_argument);
}

TEST_CASE("the bars of a suite") {
  const ByteComparison good = compare(perfect(record("fa2", 1024)));
  Summary s = summarise({good, good});
  CHECK(s.met());
  CHECK(s.up_to_32k.cases == 2);
  CHECK(s.from_64k.cases == 0);
  CHECK(s.up_to_32k.worst == 0);

  // 2 MB less than measured counts as right where little is compulsory; 3 MB does not.
  ByteComparison off = good;
  off.record.observed.dram_read += 2e6;
  CHECK(summarise({off}).up_to_32k.worst == 0);
  off.record.observed.dram_read += 1e6;
  s = summarise({good, good, off});
  CHECK(s.up_to_32k.median == 0);
  CHECK(s.up_to_32k.worst > 0.12);
  CHECK_FALSE(s.met());

  ByteComparison broken = good;
  broken.record.observed.dram_read = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(summarise({broken}).met());
  broken = good;
  broken.record.observed.requested_read = 0;
  s = summarise({broken});
  CHECK(s.requested_faults.size() == 1);
  CHECK_FALSE(s.met());
}

TEST_CASE("bytes-v1 is what it says, and stays as it is") {
  const std::vector<KernelCase> suite = bytes_suite_v1();
  CHECK(suite.size() >= 200);
  int shortest = 1 << 30, longest = 0, fewest = 1 << 30, most = 0, causal = 0, odd = 0;
  std::set<int> dims;
  std::set<std::string> kernels, different;
  for (const KernelCase& c : suite) {
    CHECK(fault_of(c.problem).empty());
    CHECK((schedule_of(c) != nullptr));
    shortest = std::min(shortest, c.problem.seqlen_k);
    longest = std::max(longest, c.problem.seqlen_k);
    fewest = std::min(fewest, c.problem.batch * c.problem.heads_q);
    most = std::max(most, c.problem.batch * c.problem.heads_q);
    causal += c.problem.causal;
    odd += c.problem.seqlen_k % 128 != 0;
    dims.insert(c.problem.head_dim);
    kernels.insert(c.kernel + (c.backward ? " backward" : ""));
    different.insert(describe(c));
  }
  CHECK(shortest <= 128);
  CHECK(longest == 131072);
  CHECK(fewest == 1);
  CHECK(most == 1024);
  CHECK(causal > 80);
  CHECK(causal < 140);
  CHECK(odd > 30);
  CHECK(dims == std::set<int>{64, 128, 256});
  CHECK(kernels.size() == 9);
  CHECK(different.size() == suite.size());
  CHECK(describe(suite.front()) == "standard, batch 2, heads 8, seqlen 16384, d 128, fp16, causal");
  CHECK(describe(suite[219]) == "decoding, batch 8, heads 2, seqlen 1 x 131072, d 128, fp16, causal");
  CHECK(suite.back().kernel == "softmax");
}

TEST_CASE("the counters' requested bytes of forward kernels are the simulator's, ragged lengths included") {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/h200_kernels.json");
  REQUIRE(file.good());
  const Records all = records_from_json({std::istreambuf_iterator<char>(file), {}});
  int fa2 = 0, fa3 = 0, ragged = 0;
  for (const Record& r : all.records) {
    const Problem& p = r.what.problem;
    if (r.what.backward || (r.what.kernel != "fa2" && r.what.kernel != "fa3") || p.seqlen_k > 8192) continue;
    CAPTURE(describe(r.what));
    const ByteComparison c = compare(r);
    const L2Traffic t = c.total();
    CHECK(c.requested_fault().empty());  // the bar of every kernel; what follows is sharper
    if (r.what.kernel == "fa2") {
      // Rows of a head that begin within a sector share it with the head before, whatever L1 makes of it.
      CHECK(t.requested_read == r.observed.requested_read);
      // Each 8 rows of LSE then lie in two sectors; now and then L1 joins the second with the next rows'
      // first.
      const double lse_writes = p.seqlen_q % 8 == 0 ? 0 : std::ceil(p.seqlen_q / 8.) * p.batch * p.heads_q;
      CHECK(std::fabs(t.requested_written - r.observed.requested_written) <= 64 + 32 * lse_writes / 500);
      ++fa2;
    } else {  // masked tiles are asked for at a counter in memory, a sector a tile
      const double tiles = p.masked() ? std::ceil((p.seqlen_q / 128. + 1)) * p.batch * p.heads_q : 0;
      CHECK(r.observed.requested_read - t.requested_read >= 0);
      CHECK(r.observed.requested_read - t.requested_read <= 32 * tiles);
      ++fa3;
    }
    ragged += p.seqlen_k % 128 != 0;
  }
  CHECK(fa2 >= 30);
  CHECK(fa3 >= 20);
  CHECK(ragged >= 12);
}

TEST_CASE("records of version 1 are completed: how many heads fa3 takes in turn under a mask") {
  Records all;
  all.records = {record("fa3", 16384, true), record("fa3", 16384, false)};
  std::string text = to_json(all);
  text.replace(text.find("\"schema_version\":2"), 18, "\"schema_version\":1");
  const Records old = records_from_json(text);
  CHECK(old.records[0].tiling.heads_together == 4);  // K and V of a head: 4 MiB; there are 4 heads
  CHECK(old.records[1].tiling.heads_together == 1);
  CHECK(records_from_json(to_json(old)).records[0].tiling.heads_together == 4);
}

TEST_CASE("a measurement that something else disturbed is in no bar of DRAM bytes, and named") {
  const ByteComparison good = compare(perfect(record("fa2", 1024)));
  CHECK_FALSE(disturbed(good.record.observed));
  ByteComparison bad = good;
  bad.record.observed.dram_written += 20e6;
  CHECK(disturbed(bad.record.observed));
  const Summary s = summarise({good, bad});
  CHECK(s.cases == 2);
  CHECK(s.up_to_32k.cases == 1);
  REQUIRE(s.disturbed.size() == 1);
  CHECK(s.disturbed[0] == describe(bad.record.what));
}

TEST_CASE("Nsight Compute's CSV, a launch a line or a metric a line, gives the same counts") {
  const std::vector<NcuKernel> raw = ncu_kernels_from_csv(
      "==PROF== Profiling\n"
      "\"ID\",\"Kernel "
      "Name\",\"dram__bytes_read.sum\",\"gpu__time_duration.sum\",\"other\",\"lts__t_sectors_srcunit_tex_op_"
      "read.sum\"\n"
      "\"\",\"\",\"Mbyte\",\"usecond\",\"%\",\"sector\"\n"
      "\"0\",\"a<1, 2>\",\"1.5\",\"12.5\",\"n/a\",\"1,000\"\r\n"
      "\"1\",\"b\",\"2\",\"1\",\"7\",\"\"\n");
  const std::vector<NcuKernel> details = ncu_kernels_from_csv(
      "ID,Kernel Name,Section Name,Metric Name,Metric Unit,Metric Value\n"
      "0,\"a<1, 2>\",x,dram__bytes_read.sum,Kbyte,\"1,500\"\n"
      "0,\"a<1, 2>\",x,gpu__time_duration.sum,ns,12500\n"
      "0,\"a<1, 2>\",x,Duration,fortnight,1\n"
      "0,\"a<1, 2>\",x,lts__t_sectors_srcunit_tex_op_read.sum,Ksector,1\n"
      "1,b,x,dram__bytes_read.sum,byte,2000000\n");
  for (const auto& kernels : {raw, details}) {
    REQUIRE(kernels.size() == 2);
    CHECK(kernels[0].name == "a<1, 2>");
    CHECK(kernels[0].observed.dram_read == doctest::Approx(1.5e6));
    CHECK(kernels[0].observed.seconds == doctest::Approx(12.5e-6));
    CHECK(kernels[0].observed.l2_read == doctest::Approx(32'000));
    CHECK(std::isnan(kernels[0].observed.requested_read));
    CHECK(std::isnan(kernels[1].observed.l2_read));
    CHECK(sum_of(kernels).dram_read == doctest::Approx(3.5e6));
    CHECK(std::isnan(sum_of(kernels).l2_read));  // one launch lacks it
  }
}

TEST_CASE("what is no report of Nsight Compute's counters is refused, with line and remedy") {
  const auto message = [](const std::string& text) -> std::string {
    try {
      ncu_kernels_from_csv(text);
    } catch (const RecordError& e) {
      return e.what();
    }
    return {};
  };
  const std::string heading = "ID,Kernel Name,dram__bytes_read.sum\n";
  CHECK(message("").find("ncu --csv") != std::string::npos);
  CHECK(message("ID,Kernel Name,x\n,,%\n0,a,1\n").find("--metrics l1tex__m_xbar2l1tex") != std::string::npos);
  CHECK(message(heading + ",,parsec\n0,a,1\n").find("line 3: dram__bytes_read.sum: the unit is \"parsec\"") ==
        0);
  CHECK(message(heading + ",,byte\n0,a,many\n").find("line 3: dram__bytes_read.sum: \"many\"") == 0);
  CHECK(message(heading + ",,byte\n0,a\n").find("line 3: 2 fields") == 0);
  CHECK(message(heading + "0,a,1\n").find("line 2: expected the units") == 0);
  CHECK(message("ID,Kernel Name,Metric Name\n").find("line 1: ") == 0);
}

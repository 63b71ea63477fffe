// DRAM bytes of our own kernels against the counters of an H200, without a GPU: the committed records,
// replayed. A change of the model, or of a schedule, that makes them worse fails here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "simulator/compare/card_record.h"
#include "simulator/compare/compare.h"

using namespace flashsim;

namespace {

std::string text_of(const char* name) {
  std::ifstream file(std::string(FLASHSIM_SOURCE_DIR "/docs/measurements/") + name);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Quick enough for every run of the tests.
bool is_quick(const Record& r) { return r.observed.requested_read + r.observed.requested_written < 6e9; }

}  // namespace

TEST_CASE("DRAM bytes of recorded launches of our kernels are within the bars") {
  const Records all = records_from_json(text_of("h200_kernels.json"));
  const Card card = card_from_json(text_of("h200_l2_card.json"));
  L2Options options;
  options.gpu = gpu_of_device(all.device);
  options.card = &card;
  options.tensors_apart = all.tensors_apart;
  REQUIRE(options.gpu != nullptr);
  REQUIRE(card.device == all.device);
  std::vector<ByteComparison> within;
  int cases = 0;
  for (const Record& r : all.records) {
    if (!is_quick(r) || disturbed(r.observed)) continue;
    ++cases;
    const ByteComparison c = compare(r, options, 3, 25);
    const Summary one = summarise({c});
    CAPTURE(describe(r.what));
    CHECK(one.up_to_32k.worst <= 0.12);
    CHECK(one.from_64k.worst <= 1);
    CHECK(one.requested_faults.empty());
    within.push_back(c);
  }
  CHECK(cases >= 150);
  const Summary rest = summarise(within);
  MESSAGE("DRAM bytes of " << rest.up_to_32k.cases << " launches, n up to 32,768: median error "
                           << rest.up_to_32k.median << ", 95th percentile " << rest.up_to_32k.percentile_95
                           << ", worst " << rest.up_to_32k.worst << " (" << rest.up_to_32k.worst_case << ")");
  CHECK(rest.up_to_32k.median <= 0.02);
  CHECK(rest.up_to_32k.percentile_95 <= 0.06);
}

TEST_CASE(
    "the order of thread blocks and the heads that take turns, as predicted before they were measured") {
  const Card card = card_from_json(text_of("h200_l2_card.json"));
  std::map<std::string, ByteComparison> all;
  for (const std::string name : {"fa2_causal_131072_first-to-last", "fa2_causal_131072_last-to-first",
                                 "fa3_causal_131072_first-to-last", "fa3_causal_131072_last-to-first",
                                 "fa3_causal_131072_first-to-last_4_heads", "fa3_causal_16384_16_heads",
                                 "fa3_causal_16384_32_heads"}) {
    CAPTURE(name);
    const Records records = records_from_json(text_of(("h200_" + name + ".json").c_str()));
    REQUIRE(records.records.size() == 1);
    REQUIRE(card.device == records.device);
    L2Options options;
    options.gpu = gpu_of_device(records.device);
    options.card = &card;
    options.tensors_apart = records.tensors_apart;
    all[name] = compare(records.records[0], options, 1);
    const Summary one = summarise({all[name]});
    CHECK(one.requested_faults.empty());
    // Shortest first hangs on differences in speed of less than a percent, so on the seed; the others do not.
    const bool shortest_first = name.find("first-to-last") != std::string::npos;
    CHECK(std::max(one.up_to_32k.worst, one.from_64k.worst) <= (shortest_first ? 0.35 : 0.06));
  }
  const auto read = [&](const std::string& name, bool simulated) {
    const ByteComparison& c = all.at(name);
    return simulated ? c.total().dram_read : c.record.observed.dram_read;
  };
  for (const bool simulated : {false, true}) {
    CAPTURE(simulated);
    for (const std::string kernel : {"fa2", "fa3"})
      CHECK(read(kernel + "_causal_131072_first-to-last", simulated) >
            20 * read(kernel + "_causal_131072_last-to-first", simulated));
    CHECK(read("fa3_causal_131072_first-to-last_4_heads", simulated) >
          2.5 * read("fa3_causal_131072_first-to-last", simulated));
    CHECK(read("fa3_causal_16384_32_heads", simulated) > 2.4 * read("fa3_causal_16384_16_heads", simulated));
  }
}

// With the tensors apart, at other places in memory in every launch. The model's seeds are such places, too:
// their range must meet the measured one.
TEST_CASE("where DRAM bytes change with the places of the tensors, they do in the model") {
  const Records all = records_from_json(text_of("h200_places.json"));
  const Card card = card_from_json(text_of("h200_l2_card.json"));
  L2Options options;
  options.gpu = gpu_of_device(all.device);
  options.card = &card;
  options.tensors_apart = all.tensors_apart;
  REQUIRE(options.gpu != nullptr);
  REQUIRE(options.tensors_apart);
  CHECK(all.records.size() == 11);
  double widest = 1;
  for (const Record& r : all.records) {
    CAPTURE(describe(r.what));
    REQUIRE(r.varies());
    const ByteComparison c = compare(r, options, 9);
    CHECK(c.simulated.least <= r.dram_most);
    CHECK(c.simulated.most >= r.dram_least);
    widest = std::max(widest, c.simulated.most / c.simulated.least);
  }
  CHECK(widest > 3);
}

// Hardware counters where no GPU is needed: their names on known chips, and what is said where there are
// none.
#include "gpu_kernels/measure/measure.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace flashsim::gpu;

TEST_CASE("where counters cannot be read, the reason is one, and it says what to do") {
  const std::string reason = why_no_counters();
  if (reason.empty()) {
    MESSAGE("counters can be read here");
    return;
  }
  CHECK(reason.size() > 20);
  try {
    const Counters counters;
    FAIL("Counters must not open where why_no_counters gives a reason");
  } catch (const CountersUnavailable& e) {
    CHECK(std::string(e.what()) == reason);
    if (!why_no_gpu().empty()) CHECK(e.reason() == CountersUnavailable::Reason::no_gpu);
  }
  CHECK_THROWS_AS(measure_reread({1 << 20}, 2), CountersUnavailable);
}

TEST_CASE("every counter exists on GH100 and takes few repeats; GA100 lacks none that compare needs") {
  try {
    std::vector<std::string> missing;
    const int gh100 = repeats_on("GH100", &missing);
    CHECK(missing.empty());
    CHECK(gh100 >= 1);
    CHECK(gh100 <= 3);
    const int ga100 = repeats_on("GA100", &missing);
    CHECK(ga100 <= 6);
    for (const std::string& m : missing) {
      CHECK(m.find("dram__") == std::string::npos);
      CHECK(m.find("xbar") == std::string::npos);
    }
    MESSAGE("launches to read all counters: GH100 " << gh100 << ", GA100 " << ga100 << " without "
                                                    << missing.size());
    CHECK_THROWS_AS(repeats_on("no such chip"), CountersUnavailable);
  } catch (const CountersUnavailable& e) {
    // CUPTI's own library is not a dependency; what must not happen is another reason than its absence.
    CHECK(e.reason() != CountersUnavailable::Reason::failed);
    MESSAGE("skipped: " << e.what());
  }
}

// The L2 model against counters: 32 forward launches of kernels that are not ours, on an H200, from their
// grid and order of blocks alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

#include "simulator/executors/l2/l2.h"
#include "simulator/schedules/schedules.h"

using namespace flashsim;

namespace {

struct Row {
  std::string kernel;
  int causal, batch, heads, n;
  double dram_read, dram_write, received;
};

/// Fields by the names in the heading, so that columns may move.
std::vector<Row> measured_rows(const std::string& file_name) {
  std::ifstream file(FLASHSIM_SOURCE_DIR "/docs/measurements/" + file_name);
  std::vector<std::string> names;
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string f; std::getline(stream, f, '\t');) fields.push_back(f);
    if (names.empty()) {
      names = fields;
      continue;
    }
    const bool received = std::find(names.begin(), names.end(), "xbar_read") != names.end();
    const auto field = [&](const char* name) {
      return fields.at(static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
    };
    rows.push_back({field("kernel"), std::stoi(field("causal")), std::stoi(field("batch")),
                    std::stoi(field("heads")), std::stoi(field("n")), std::stod(field("dram_read")),
                    std::stod(field("dram_write")), received ? std::stod(field("xbar_read")) : 0});
  }
  return rows;
}

void forward_body(Machine& sm, const Problem& p, Block i, Blocks cols) {
  using enum Tensor;
  Tile Qi = sm.load(Q, i);
  Tile Oi = sm.zeros(O, i);
  for (Block j : cols) {
    Tile Kj = sm.load(K, j), Vj = sm.load(V, j);
    Tile Pij = sm.matmul_nt(P, Qi, Kj, scale_of(p));
    sm.add_matmul(Oi, Pij, Vj);
  }
  sm.store(O, i, Oi);
}
/// FlashAttention-2 as PyTorch builds it: blocks in order, keys from the last visible tile to the first.
void fa2_walking_down(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block i) {
    Blocks cols = visible_cols(p, t, i);
    cols.backwards = true;
    forward_body(sm, p, i, cols);
  });
}
/// cuDNN's causal kernel takes the longest row block, the shortest, the second longest, ... (inferred).
void cudnn(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", row_blocks(p, t), [&](Machine& sm, Block k) {
    const Blocks rows = all_rows(p, t);
    const int half = k.index / 2;
    const Block i = !p.causal ? k : rows[k.index % 2 == 0 ? rows.per_group() - 1 - half : half];
    Blocks cols = visible_cols(p, t, i);
    cols.backwards = true;
    forward_body(sm, p, i, cols);
  });
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
/// How many times larger the larger one is, less 1.
double distance(double a, double b) { return std::max(a / b, b / a) - 1; }

/// The DRAM bytes that `row`'s launch read, least and most, where it was measured again and again.
struct Range {
  double least, most;
};
Range range_of(const Row& row, const std::vector<Row>& repeats) {
  Range range{row.dram_read, row.dram_read};
  for (const Row& r : repeats)
    if (r.kernel == row.kernel && r.causal == row.causal && r.batch * r.heads == row.batch * row.heads &&
        r.n == row.n)
      range = {std::min(range.least, r.dram_read), std::max(range.most, r.dram_read)};
  return range;
}

}  // namespace

TEST_CASE("DRAM bytes of 32 recorded launches of PyTorch's FA2 and cuDNN on an H200") {
  const std::vector<Row> rows = measured_rows("h200_pytorch_l2_shapes.tsv"),
                         repeats = measured_rows("h200_pytorch_l2_repeats.tsv");
  REQUIRE(rows.size() == 32);
  REQUIRE(repeats.size() == 35);
  std::vector<double> read_errors, write_errors;
  int within_10 = 0;
  std::ostringstream table;
  table << std::fixed << std::setprecision(3);
  for (const Row& r : rows) {
    const bool fa2 = r.kernel == "FA2";
    Problem p;
    p.batch = r.batch;
    p.heads_q = p.heads_kv = r.heads;
    p.seqlen_q = p.seqlen_k = r.n;
    p.head_dim = 128;
    p.causal = r.causal != 0;
    Tiling t;
    t.block_q = 128;
    t.block_k = fa2 ? 64 : 128;
    L2Options options;
    options.gpu = find_gpu("h200");
    options.blocks_per_sm = fa2 ? 2 : 1;
    options.spilled_bytes_per_block = fa2 ? 7168 : 0;  // a step, as sm_write less O says
    options.dirty_bytes_before = 28'000'000;           // what the flush before each launch left
    const L2Result result = simulate_l2(fa2 ? fa2_walking_down : cudnn, p, t, options);
    const L2Traffic total = result.total();
    CAPTURE(r.kernel);
    CAPTURE(r.causal);
    CAPTURE(r.n);
    CHECK(total.requested_read == doctest::Approx(r.received).epsilon(0.0005));
    read_errors.push_back(distance(total.dram_read, r.dram_read));
    within_10 += read_errors.back() <= 0.10;
    if (r.n <= 32768) CHECK(read_errors.back() <= 0.10);
    // Of one launch the counters themselves say 2.5 to 4.7 GB.
    const Range range = range_of(r, repeats);
    CHECK(distance(total.dram_read, std::clamp(total.dram_read, range.least, range.most)) <= 0.4);
    // FA2's spills also reach DRAM when thread blocks end, which the schedule does not know of.
    if (!fa2) write_errors.push_back(distance(total.dram_written, r.dram_write));
    table << "\n"
          << r.kernel << (r.causal != 0 ? " causal" : "") << " n " << r.n << " heads " << r.batch * r.heads
          << ": read " << total.dram_read / r.dram_read << ", written " << total.dram_written / r.dram_write
          << " of measured";
  }
  MESSAGE("simulated over measured" << table.str() << "\nreads: median error " << median(read_errors) << ", "
                                    << within_10 << " within 10 %; cuDNN's writes: median error "
                                    << median(write_errors));
  CHECK(median(read_errors) <= 0.04);
  // The bar, for seed 1. Of eleven seeds each has 25 to 29, and their medians 27, as the rows of n = 131,072
  // hang on small differences in speed (docs/measured_bytes.md).
  CHECK(within_10 >= 28);
  CHECK(median(write_errors) <= 0.03);
  CHECK(*std::max_element(write_errors.begin(), write_errors.end()) <= 0.1);
}

TEST_CASE("the order of causal thread blocks decides: longest first reads less than a thirtieth") {
  Problem p;
  p.heads_q = p.heads_kv = 4;
  p.seqlen_q = p.seqlen_k = 131072;
  p.head_dim = 128;
  p.causal = true;
  Tiling t;
  t.block_q = 128;
  L2Options options;
  options.blocks_per_sm = 2;
  const double compulsory = 4.0 * 4 * 131072 * 128 * 2;
  const double short_first = simulate_l2(fa2_walking_down, p, t, options).total().dram() / compulsory;
  t.order = BlockOrder::last_to_first;
  const double long_first = simulate_l2(fa2_walking_down, p, t, options).total().dram() / compulsory;
  MESSAGE("DRAM bytes over compulsory, n = 131,072, 4 heads, causal: short first "
          << short_first << ", longest first " << long_first);
  CHECK(short_first > 50);
  CHECK(long_first < 2.8);
  CHECK(long_first >= 1);
}

// Thread blocks that stay on their SM and ask for the next tile when they are free do no better.
TEST_CASE("the order decides for fa3's tiles, too, and for how many heads take turns") {
  Problem p;
  p.heads_q = p.heads_kv = 4;
  p.seqlen_q = p.seqlen_k = 131072;
  p.head_dim = 128;
  p.causal = true;
  Tiling t = find_algorithm("fa3")->tiling(p);
  t.key_order = BlockOrder::last_to_first;
  const double compulsory = 4.0 * 4 * 131072 * 128 * 2;
  const auto times_compulsory = [&](BlockOrder order, int heads_together) {
    t.order = order, t.heads_together = heads_together;
    return simulate_l2(fa3_forward, p, t, {}).total().dram() / compulsory;
  };
  const double short_first = times_compulsory(BlockOrder::first_to_last, 1),
               long_first = times_compulsory(BlockOrder::last_to_first, 1),
               in_turn = times_compulsory(BlockOrder::first_to_last, 4);
  MESSAGE("DRAM bytes over compulsory, fa3, n = 131,072, 4 heads, causal: short first "
          << short_first << ", the heads in turn " << in_turn << "; longest first " << long_first);
  CHECK(short_first > 40);
  CHECK(in_turn > 3 * short_first);  // K and V of four heads are eight times what L2 holds
  CHECK(long_first < 2.8);
  CHECK(long_first >= 1);
}

namespace {
template <Deal deal>
void persistent_walking_down(Device& gpu, const Problem& p, const Tiling& t) {
  gpu.kernel("forward", persistent(row_blocks(p, t), deal), [&](Machine& sm, Block i) {
    Blocks cols = visible_cols(p, t, i);
    cols.backwards = true;
    forward_body(sm, p, i, cols);
  });
}
}  // namespace

// fa3 asked early until its commit 11b0677: then 539 to 556 MB were read of 403 compulsory, since then 428
// MB.
TEST_CASE("a tile asked for before it can be worked on waits, while others run ahead to further heads") {
  Problem p;
  p.batch = 32;
  p.heads_q = p.heads_kv = 4;
  p.seqlen_q = p.seqlen_k = 2048;
  p.head_dim = 256;
  p.causal = true;
  Tiling t;
  t.block_q = 128;
  t.order = BlockOrder::last_to_first;
  t.heads_together = 16;
  L2Options options;
  options.blocks_per_sm = 1;
  const double compulsory = 3.0 * 128 * 2048 * 256 * 2,
               late = simulate_l2(persistent_walking_down<Deal::when_free>, p, t, options).total().dram_read,
               early = simulate_l2(persistent_walking_down<Deal::one_ahead>, p, t, options).total().dram_read;
  MESSAGE("DRAM bytes read over compulsory: asked for late " << late / compulsory << ", early "
                                                             << early / compulsory);
  CHECK(late < 1.1 * compulsory);
  CHECK(early > 1.25 * compulsory);
}

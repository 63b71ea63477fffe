// The recorder: frames add up to what other executors count, and hold the numbers that mathematics asks for.
#include "simulator/executors/recorder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "cpu_reference/oracle.h"
#include "cpu_reference/random.h"
#include "simulator/executors/traffic.h"
#include "simulator/schedules/schedules.h"

using namespace flashsim;

namespace {

struct Input {
  Problem p;
  Tiling t;
  std::vector<double> q, k, v, d_o;
};

Input input(const Algorithm& a, Problem p, int block_q, int block_k) {
  Input x;
  x.p = p;
  x.t = a.tiling(p);
  x.t.block_q = block_q;
  x.t.block_k = block_k;
  const auto random = [&](std::uint32_t id, int heads, int rows) {
    return random_tensor(Distribution::normal, 7, id, elements(p, heads, rows, p.head_dim));
  };
  x.q = random(tensor_id::q, p.heads_q, p.seqlen_q);
  x.k = random(tensor_id::k, p.heads_kv, p.seqlen_k);
  x.v = random(tensor_id::v, p.heads_kv, p.seqlen_k);
  x.d_o = random(tensor_id::d_o, p.heads_q, p.seqlen_q);
  return x;
}

RecordRequest request(const Algorithm& a, const Input& x, bool backward) {
  RecordRequest r;
  r.schedule = program_of(backward ? a.backward : a.forward, x.p, x.t);
  if (backward) r.before = program_of(a.forward, x.p, x.t);
  r.standard = program_of(backward ? standard_backward : standard_forward, x.p, x.t);
  r.problem = x.p;
  r.tiling = x.t;
  r.backward = backward;
  r.capacity = 1 << 20;
  r.q = &x.q;
  r.k = &x.k;
  r.v = &x.v;
  r.d_o = &x.d_o;
  return r;
}

Problem ragged(bool causal, int heads_q, int heads_kv) {
  Problem p;
  p.seqlen_q = 37;
  p.seqlen_k = 43;
  p.head_dim = 8;
  p.heads_q = heads_q;
  p.heads_kv = heads_kv;
  p.dtype = Dtype::fp64;
  p.causal = causal;
  return p;
}

std::vector<std::string> text_of(const RecordedKernel& k) {
  std::vector<std::string> lines;
  for (const ListingLine& l : k.listing) lines.push_back(std::string(2 * l.depth, ' ') + l.text);
  return lines;
}

}  // namespace

TEST_CASE("frames add up to the traffic executor's counts, and outputs to the oracle's") {
  for (const Algorithm& a : algorithms())
    for (const bool backward : {false, true})
      for (const bool causal : {false, true})
        for (const int heads_q : {1, 2}) {
          if (backward && a.backward == nullptr) continue;
          CAPTURE(a.name);
          CAPTURE(backward);
          CAPTURE(causal);
          CAPTURE(heads_q);
          const Input x = input(a, ragged(causal, heads_q, 1), 16, 8);
          const Recording r = record(request(a, x, backward));

          const auto kernels = count_traffic(backward ? a.backward : a.forward, x.p, x.t);
          const KernelTraffic total = sum(kernels);
          REQUIRE(r.kernels.size() == kernels.size());
          CHECK(r.requested(r.frames.back()) == total.requested_bytes());
          for (std::size_t m = 0; m < r.moves.size(); ++m) {
            const TensorTraffic& t = total.of(r.moves[m].tensor);
            const std::int64_t counted = r.moves[m].direction == Direction::read      ? t.read.bytes
                                         : r.moves[m].direction == Direction::written ? t.written.bytes
                                                                                      : t.reduced.bytes;
            CHECK(r.requested(r.frames.size() - 1, m) == counted);
          }
          std::int64_t before = 0;
          for (const Frame& f : r.frames) {
            std::int64_t in_step = 0;
            for (const ExecutedLine& line : f.lines) in_step += line.bytes;
            CHECK(r.requested(f) == before + in_step);
            before = r.requested(f);
          }

          // float64 sums of at most 43 terms of size about 1: far below 1e-12.
          for (std::size_t o = 0; o < r.outputs.size(); ++o) {
            const OutputState& last = r.frames.back().outputs[o];
            CHECK(last.finished ==
                  rows_of(r.outputs[o], x.p, x.t) * (is_key_side(r.outputs[o]) ? 1 : x.p.heads_q));
            CHECK(last.error <= 1e-12);
          }
        }
}

TEST_CASE("every visible tile is visited, no hidden one, and standard's bytes of all tiles are its total") {
  for (const char* name : {"chunked", "fa1", "fa2", "fa3", "decoding"})
    for (const bool causal : {false, true}) {
      CAPTURE(name);
      CAPTURE(causal);
      const Algorithm& a = *find_algorithm(name);
      const Input x = input(a, ragged(causal, 1, 1), 16, 8);
      const Recording r = record(request(a, x, false));
      std::set<std::pair<int, int>> visited, visible;
      for (const Frame& f : r.frames)
        if (f.at.visits_tile()) visited.emplace(f.at.rows.begin / 16, f.at.cols.begin / 8);
      for (const Block i : row_blocks(x.p, x.t))
        for (const Block j : visible_cols(x.p, x.t, i)) visible.emplace(i.index, j.index);
      CHECK(visited == visible);
      CHECK(r.frames.back().tiles_done == static_cast<int>(visible.size()));
      const KernelTraffic standard = sum(count_traffic(standard_forward, x.p, x.t));
      CHECK(r.frames.back().standard == standard.requested_bytes());
      CHECK(r.frames.back().standard_scores ==
            standard.of(Tensor::S).bytes() + standard.of(Tensor::P).bytes());
    }
}

TEST_CASE("m, l and the correction are those of the scores seen so far") {
  const Algorithm& a = *find_algorithm("fa2");
  const Input x = input(a, ragged(true, 1, 1), 16, 8);
  const Recording r = record(request(a, x, false));
  const auto q = matrix_of(x.q, 0, x.p.seqlen_q, x.p.head_dim),
             k = matrix_of(x.k, 0, x.p.seqlen_k, x.p.head_dim);
  int compared = 0;
  for (const Frame& f : r.frames) {
    if (!f.at.visits_tile()) continue;
    for (int row = f.first_row; row < f.first_row + f.row_count; ++row) {
      const AttentionRow full = attention_row(x.p, row, q, k);
      const int seen = std::min<int>(f.at.cols.end(), static_cast<int>(full.scores.size()));
      const double m = full.scores.head(seen).maxCoeff();
      const double l = (full.scores.head(seen).array() - m).exp().sum();
      // Recorded as float.
      CHECK(std::abs(f.of(RowQuantity::m).of(row) - m) <= 1e-6 * std::max(1., std::abs(m)));
      CHECK(std::abs(f.of(RowQuantity::l).of(row) - l) <= 1e-6 * l);
      const int before = std::min<int>(f.at.cols.begin, static_cast<int>(full.scores.size()));
      const double m_before = before > 0 ? full.scores.head(before).maxCoeff() : -infinity;
      CHECK(std::abs(f.of(RowQuantity::correction).of(row) - std::exp(m_before - m)) <= 1e-6);
      ++compared;
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("gradients approach the oracle's as tiles are added") {
  const Algorithm& a = *find_algorithm("fa2");
  const Input x = input(a, ragged(false, 1, 1), 16, 16);
  const Recording r = record(request(a, x, true));
  int complete = 0;
  for (std::size_t k = 0; k + 1 < r.frames.size(); ++k) {
    const Frame& f = r.frames[k];
    if (!f.at.visits_tile()) continue;
    for (std::size_t o = 0; o < 3; ++o) CHECK(f.outputs[o].distance >= 0);
    const bool last_row_block = f.at.rows.end() == x.p.seqlen_q,
               last_col_block = f.at.cols.end() == x.p.seqlen_k;
    if (last_row_block) CHECK(f.outputs[1].distance <= 1e-12);  // dK of this column block is complete
    if (!last_row_block) CHECK(f.outputs[1].distance > 1e-6);
    if (last_col_block) CHECK(f.outputs[0].distance <= 1e-12);  // dQ has every column block's share
    complete += last_row_block && last_col_block;
  }
  CHECK(complete == 1);
}

TEST_CASE("the listing is the paper's text") {
  const Input x = input(*find_algorithm("fa2"), ragged(true, 1, 1), 16, 8);
  const Recording fa2 = record(request(*find_algorithm("fa2"), x, false));
  CHECK(text_of(fa2.kernels[0]) ==
        std::vector<std::string>{
            "O_i = 0, l_i = 0, m_i = -inf", "load Q_i", "for each tile j of K, V:", "  load K_j, V_j",
            "  S_ij = scale * Q_i K_j^T", "  mask S_ij", "  m_tile = rowmax(S_ij)",
            "  m_new = max(m_i, m_tile)", "  P_ij = exp(S_ij - m_new)", "  correction = exp(m_i - m_new)",
            "  l_i = correction * l_i", "  l_i += rowsum(P_ij)", "  O_i = correction * O_i",
            "  O_i += P_ij V_j", "O_i = O_i / l_i; store", "LSE_i = m_i + log(l_i); store"});
  const Recording fa1 = record(request(*find_algorithm("fa1"), x, false));
  const std::vector<std::string> nested = text_of(fa1.kernels[1]);
  CHECK(nested[0] == "for each tile j of K, V:");
  CHECK(nested[1] == "  load K_j, V_j");
  CHECK(nested[2] == "  for each tile i of Q:");
  CHECK(nested[3] == "    load Q_i, O_i, l_i, m_i");
  CHECK(nested[nested.size() - 2] == "    O_i = O_i / l_i; store");
  CHECK(nested.back() == "    store l_i, m_i = m_new");
  const Recording fa3 = record(request(*find_algorithm("fa3"), x, false));
  REQUIRE(fa3.kernels[0].roles);
  CHECK(fa3.kernels[0].listing[1].producer);
  CHECK(fa3.kernels[0].listing[1].text == "prefetch K_j, V_j");
  CHECK(fa3.frames[0].at.role == 0);
}

TEST_CASE("SRAM of a step is at most the peak, and the peak is reached") {
  for (const char* name : {"standard", "fa1", "fa2", "chunked"})
    for (const Placement placement : {Placement::paper, Placement::kernel}) {
      CAPTURE(name);
      const Algorithm& a = *find_algorithm(name);
      const Input x = input(a, ragged(false, 1, 1), 16, 8);
      RecordRequest wanted = request(a, x, false);
      wanted.placement = placement;
      const Recording r = record(wanted);
      std::int64_t most = 0;
      for (const SramState& s : r.sram) {
        std::int64_t in_sram = 0;
        for (const LiveTile& tile : s.tiles) in_sram += tile.in_sram ? tile.bytes : 0;
        CHECK(in_sram == s.sram);
        most = std::max(most, s.sram);
      }
      CHECK(most == sram_use(a.forward, x.p, x.t, placement, 1 << 20).peak_sram);
    }
}

TEST_CASE("the map: done before, current now, hidden never") {
  const Algorithm& a = *find_algorithm("fa2");
  Input x = input(a, ragged(true, 1, 1), 16, 8);
  x.t.order = BlockOrder::first_to_last;
  const Recording r = record(request(a, x, false));
  const std::vector<TileState> states = tile_states(r, 2);  // the third tile of the first row block
  REQUIRE(states.size() == static_cast<std::size_t>(r.tile_rows() * r.tile_cols()));
  CHECK(states[0] == TileState::done);
  CHECK(states[1] == TileState::done);
  CHECK(states[2] == TileState::current);
  CHECK(states[3] == TileState::hidden);  // row 15 sees keys up to 21, the first three tiles of 8
  CHECK(states[r.tile_cols()] == TileState::not_yet);
}

TEST_CASE("packed heads of decoding are recorded together") {
  const Algorithm& a = *find_algorithm("decoding");
  Problem p = ragged(false, 4, 2);
  p.seqlen_q = 1;
  Input x = input(a, p, 2, 8);
  x.t.num_splits = 3;
  RecordRequest wanted = request(a, x, false);
  wanted.head = 3;
  const Recording r = record(wanted);
  CHECK(r.packed);
  CHECK(r.head == 2);
  CHECK(r.heads == 2);
  CHECK(r.frames.back().outputs[0].finished == 2);
  CHECK(r.frames.back().outputs[0].error <= 1e-12);
}

TEST_CASE("what cannot be recorded is refused") {
  const Algorithm& a = *find_algorithm("fa2");
  const Input x = input(a, ragged(false, 1, 1), 16, 8);
  RecordRequest wanted = request(a, x, false);
  wanted.head = 1;
  CHECK_THROWS_AS(record(wanted), ShapeError);
  wanted = request(a, x, false);
  const std::vector<double> short_q(3);
  wanted.q = &short_q;
  CHECK_THROWS_AS(record(wanted), ShapeError);
  wanted = request(a, x, false);
  wanted.placement = Placement::kernel;
  wanted.capacity = 64;
  CHECK_THROWS_AS(record(wanted), CapacityError);
  Problem big = x.p;
  big.seqlen_q = big.seqlen_k = 4096;
  CHECK_FALSE(fault_of_recording(big, Tiling{.block_q = 8, .block_k = 8}).empty());
  CHECK(fault_of_recording(big, Tiling{.block_q = 64, .block_k = 64}).empty());
  big.seqlen_k = 1 << 20;
  CHECK_FALSE(fault_of_recording(big, Tiling{.block_q = 1024, .block_k = 1024}).empty());
}

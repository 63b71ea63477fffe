#include "simulator/executors/recorder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "cpu_reference/rounding.h"
#include "simulator/executors/hazard.h"
#include "simulator/executors/listing.h"
#include "simulator/executors/numeric.h"
#include "simulator/executors/output_errors.h"
#include "simulator/executors/pseudocode.h"
#include "simulator/executors/row_statistics.h"
#include "simulator/executors/tile_bytes.h"
#include "simulator/executors/traffic.h"

namespace flashsim {
namespace {

constexpr std::int64_t most_tiles = 65'536;
constexpr std::size_t most_steps = 1'000'000;
constexpr std::int64_t most_scores = std::int64_t{1} << 26;  // the oracle computes each in float64

template <class Real>
class Recorder final : public TileSteps {
 public:
  Recorder(const RecordRequest& request, Recording& out, Memory<Real>& memory,
           std::vector<OutputErrors>& outputs)
      : TileSteps(out.tiling),
        p_(out.problem),
        out_(out),
        memory_(memory),
        outputs_(outputs),
        numeric_(p_, memory),
        hazard_(numeric_),
        sram_(p_, request.placement, request.capacity, &hazard_),
        traffic_(p_, out.tiling) {
    if (request.standard) {
      standard_ = tile_bytes(request.standard, p_, out.tiling);
      counted_.resize(standard_.size());
    }
  }

  void finish() {
    if (out_.frames.empty())
      throw ScheduleError("the schedule issues no operation, so there is nothing to step through");
    for (std::size_t k = 0; k < outputs_.size(); ++k) outputs_[k].finish(out_.frames, k);
    out_.overflow = sram_.overflow();
  }

 protected:
  void kernel_begins(const Launch& l) override {
    out_.kernels.push_back({std::string(l.name), l.blocks, false, {}});
    listing_ = {};
    first_frame_ = out_.frames.size();
    sram_.begin_kernel(l);
    traffic_.begin_kernel(l);
  }
  void block_begins(const ThreadBlock& b) override {
    block_ = b;
    pseudocode_.begin_block();
    listing_.begin_block();
    sram_.begin_block(b);
    traffic_.begin_block(b);
  }
  void ring(const TileRef& shape, int stages) override {
    out_.kernels.back().roles = true;
    sram_.allocate_ring(shape, stages);
    traffic_.allocate_ring(shape, stages);
  }
  void step_begins() override {
    now_ = {};
    touched_ = {};
    sram_now_ = {};
  }
  void tile_dies(const TileRef& t, int role) noexcept override {
    pseudocode_.release(t);
    sram_.release(t, role);
  }
  void block_ends() override {
    listing_.end_block();
    sram_.end_block();
    traffic_.end_block();
  }
  void kernel_ends() override;
  void operation(const Operation& o) override;
  void step_ends(const StepPosition& at) override;

 private:
  using Matrix = typename Numeric<Real>::Matrix;

  void run(const Operation& o);
  void compare_with_oracle(const Operation& o);
  double distance_to_oracle(const OutputErrors& output, const Matrix& sum, Block rows) const;
  int query_head(int in_group) const {
    return block_.batch * p_.heads_q + block_.head_kv * p_.group() + in_group;
  }
  void count_tile(const StepPosition& at);

  const Problem& p_;
  Recording& out_;
  Memory<Real>& memory_;
  std::vector<OutputErrors>& outputs_;
  Numeric<Real> numeric_;
  Hazard hazard_;
  Sram sram_;
  Traffic traffic_;
  Pseudocode pseudocode_;
  Listing listing_;
  ThreadBlock block_;
  Frame now_;
  Block touched_;  ///< rows of Q that the step loaded or stored
  SramState sram_now_;
  std::size_t first_frame_ = 0;  ///< of the kernel
  std::vector<std::int64_t> requested_;
  std::vector<TileBytes> standard_;
  std::vector<bool> counted_;  ///< tiles whose share of `standard_` is in the sums
  std::int64_t standard_bytes_ = 0, standard_scores_ = 0;
  int tiles_done_ = 0;
};

/// Executes the operation and notes what it moved.
template <class Real>
void Recorder<Real>::run(const Operation& o) {
  const bool moves =
      o.kind == Op::load || o.kind == Op::store || o.kind == Op::reduce_add || o.kind == Op::reduce_max;
  Moved TensorTraffic::*const direction = o.kind == Op::load    ? &TensorTraffic::read
                                          : o.kind == Op::store ? &TensorTraffic::written
                                                                : &TensorTraffic::reduced;
  const auto moved = [&] { return moves ? (traffic_.kernels().back().of(o.tensor).*direction).bytes : 0; };
  const std::int64_t before = moved();
  sram_.execute(o);
  traffic_.execute(o);
  const std::int64_t bytes = moved() - before;

  const int line = listing_.add(pseudocode_.line(o), o.kind, o.role, in_visit());
  const auto same =
      std::find_if(now_.lines.begin(), now_.lines.end(), [&](auto& x) { return x.line == line; });
  if (same == now_.lines.end()) {
    now_.lines.push_back({line, 1, bytes});
  } else {
    ++same->times;
    same->bytes += bytes;
  }
  if (!moves) return;
  const Direction d = o.kind == Op::load    ? Direction::read
                      : o.kind == Op::store ? Direction::written
                                            : Direction::reduced;
  const auto known = std::find_if(out_.moves.begin(), out_.moves.end(),
                                  [&](const Move& m) { return m.tensor == o.tensor && m.direction == d; });
  const std::size_t column = known - out_.moves.begin();
  if (known == out_.moves.end()) {
    out_.moves.push_back({o.tensor, d});
    requested_.push_back(0);
  }
  requested_[column] += bytes;
  if (!is_key_side(o.tensor) && !is_score_shaped(o.tensor) && !is_scale(o.tensor)) touched_ = o.rows;
}

template <class Real>
double Recorder<Real>::distance_to_oracle(const OutputErrors& output, const Matrix& sum, Block rows) const {
  const int head =
      is_key_side(output.tensor()) ? block_.batch * p_.heads_kv + block_.head_kv : query_head(rows.group);
  const auto wanted = output.oracle(head).middleRows(rows.begin, rows.rows);
  double distance = 0;
  for (Eigen::Index r = 0; r < sum.rows(); ++r)
    for (Eigen::Index c = 0; c < sum.cols(); ++c) {
      const double d = OutputErrors::difference(static_cast<double>(sum(r, c)), wanted(r, c));
      if (!(d <= distance)) distance = d;
    }
  return distance;
}

/// Errors of outputs that this operation stored, and how far a gradient has come.
template <class Real>
void Recorder<Real>::compare_with_oracle(const Operation& o) {
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    OutputErrors& output = outputs_[k];
    if (o.kind == Op::store && o.tensor == output.tensor()) {
      const int pack = is_key_side(o.tensor) ? 1 : o.rows.pack;
      for (int r = o.rows.begin; r < o.rows.end(); ++r) {
        const int head = is_key_side(o.tensor) ? block_.batch * p_.heads_kv + block_.head_kv
                                               : query_head(pack > 1 ? r % pack : o.rows.group);
        output.stored(out_.frames.size(), head, r / pack,
                      memory_.at_for_load(o.tensor, head, 0).row(r / pack));
      }
    }
    if (!out_.backward) continue;
    const bool in_memory = in_visit() && (o.kind == Op::reduce_add || o.kind == Op::store) &&
                           o.tensor == Tensor::dQ_sum && output.tensor() == Tensor::dQ;
    const bool on_chip =
        (o.kind == Op::add_matmul || o.kind == Op::add_matmul_tn) && o.out->tensor == output.tensor();
    double& distance = now_.outputs[k].distance;
    if (in_memory)
      distance = distance_to_oracle(
          output,
          memory_.at_for_load(o.tensor, query_head(o.rows.group), 0).middleRows(o.rows.begin, o.rows.rows),
          o.rows);
    // On chip, the rows are those of the other operand's side.
    if (on_chip) {
      const Block rows = o.kind == Op::add_matmul_tn ? cols_of_tile(*o.a) : rows_of_tile(*o.a);
      if (rows.rows == o.out->rows) distance = distance_to_oracle(output, numeric_.tile(*o.out), rows);
    }
  }
}

template <class Real>
void Recorder<Real>::operation(const Operation& o) {
  keep_rows_before(o, numeric_, pseudocode_, now_.rows);
  run(o);
  keep_rows_after(o, numeric_, pseudocode_, now_.rows);
  compare_with_oracle(o);
  if (sram_now_.tiles.empty() || sram_.sram_in_use() > sram_now_.sram ||
      (sram_.sram_in_use() == sram_now_.sram && sram_.registers_in_use() > sram_now_.registers))
    sram_now_ = {sram_.live(), sram_.sram_in_use(), sram_.registers_in_use()};
}

/// Adds a tile's share of standard attention's bytes on the first visit.
template <class Real>
void Recorder<Real>::count_tile(const StepPosition& at) {
  const int bq = out_.tiling.block_q, bk = out_.tiling.block_k, cols = out_.tile_cols(),
            rows = out_.tile_rows();
  for (int i = at.rows.begin / bq; i <= (at.rows.end() - 1) / bq; ++i)
    for (int j = at.cols.begin / bk; j <= (at.cols.end() - 1) / bk; ++j) {
      const std::size_t tile = (static_cast<std::size_t>(at.rows.group) * rows + i) * cols + j;
      if (tile >= counted_.size()) counted_.resize(tile + 1);
      if (counted_[tile]) continue;
      counted_[tile] = true;
      ++tiles_done_;
      if (tile >= standard_.size()) continue;
      standard_bytes_ += standard_[tile].all;
      standard_scores_ += standard_[tile].scores;
    }
}

template <class Real>
void Recorder<Real>::step_ends(const StepPosition& at) {
  if (out_.frames.size() == most_steps)
    throw std::length_error(
        "the schedule makes more than a million steps; choose larger blocks or shorter "
        "sequences");
  listing_.end_step(at);
  if (at.rows.pack > 1 && !out_.packed) {
    out_.packed = true;
    out_.has_standard = false;  // its tiles are those of single heads
    standard_.clear();
  }
  if (at.visits_tile()) count_tile(at);
  const Block rows = at.visits_tile() ? at.rows : touched_;
  now_.at = at;
  now_.first_row = rows.begin;
  now_.row_count = rows.rows;
  for (RowValues& v : now_.rows) v.first = rows.begin;
  now_.requested = requested_;
  now_.tiles_done = tiles_done_;
  now_.standard = standard_bytes_;
  now_.standard_scores = standard_scores_;
  const auto known = std::find(out_.sram.rbegin(), out_.sram.rend(), sram_now_);
  if (known == out_.sram.rend()) {
    now_.sram = static_cast<int>(out_.sram.size());
    out_.sram.push_back(sram_now_);
  } else {
    now_.sram = static_cast<int>(out_.sram.rend() - known) - 1;
  }
  out_.frames.push_back(std::move(now_));
}

/// The listing is known only now; lines of its frames get their place in it.
template <class Real>
void Recorder<Real>::kernel_ends() {
  std::vector<int> line_of;
  out_.kernels.back().listing = listing_.finish(line_of);
  for (std::size_t f = first_frame_; f < out_.frames.size(); ++f) {
    std::vector<ExecutedLine> lines;
    for (const ExecutedLine& x : out_.frames[f].lines) {
      const int place = line_of[x.line];
      const auto same = std::find_if(lines.begin(), lines.end(), [&](auto& y) { return y.line == place; });
      if (same == lines.end()) {
        lines.push_back({place, x.times, x.bytes});
      } else {
        same->bytes += x.bytes;
      }
    }
    out_.frames[f].lines = std::move(lines);
  }
  sram_.end_kernel();
  traffic_.end_kernel();
}

std::vector<double> in_hbm(const std::vector<double>& x, Tensor name, const Problem& p) {
  std::vector<double> rounded = x;
  round_to(dtype_in_hbm(name, p), rounded.data(), rounded.size());
  return rounded;
}

void require_size(const char* name, const std::vector<double>* x, std::int64_t expected) {
  if (x == nullptr || static_cast<std::int64_t>(x->size()) != expected)
    throw ShapeError(std::string(name) + " has " + std::to_string(x == nullptr ? 0 : x->size()) +
                     " elements; the problem's shape needs " + std::to_string(expected));
}

template <class Real>
void record_into(Recording& out, const RecordRequest& request) {
  const Problem& p = out.problem;
  const std::vector<double> q = in_hbm(*request.q, Tensor::Q, p), k = in_hbm(*request.k, Tensor::K, p),
                            v = in_hbm(*request.v, Tensor::V, p),
                            d_o = out.backward ? in_hbm(*request.d_o, Tensor::dO, p) : std::vector<double>();
  Memory<Real> memory(p, out.tiling);
  memory.set(Tensor::Q, q.data());
  memory.set(Tensor::K, k.data());
  memory.set(Tensor::V, v.data());
  if (out.backward) memory.set(Tensor::dO, d_o.data());
  const Heads head{request.head / p.heads_q, request.head % p.heads_q / p.group()};
  if (request.before) {
    Numeric<Real> numeric(p, memory);
    request.before(numeric, head);
  }
  std::vector<OutputErrors> outputs = oracle_outputs(out, q, k, v, &d_o);
  for (const OutputErrors& x : outputs) out.outputs.push_back(x.tensor());
  Recorder<Real> recorder(request, out, memory, outputs);
  request.schedule(recorder, head);
  recorder.finish();
}

}  // namespace

std::string fault_of_recording(const Problem& p, const Tiling& t) {
  const std::int64_t scores = std::int64_t{p.seqlen_q} * p.seqlen_k * p.group();
  const std::int64_t tiles =
      std::int64_t{blocks(p.seqlen_q, t.block_q).count()} * col_blocks(p, t).count() * p.group();
  if (tiles > most_tiles)
    return "stepping through " + std::to_string(tiles) + " tiles is too much (at most " +
           std::to_string(most_tiles) + "); choose larger blocks or shorter sequences";
  if (scores > most_scores)
    return "the oracle would compute " + std::to_string(scores) + " scores for comparison (at most " +
           std::to_string(most_scores) + ", e.g. 8,192 x 8,192); choose shorter sequences";
  return {};
}

Recording record(const RecordRequest& request) {
  const Problem& p = request.problem;
  for (const std::string& fault : {fault_of(p), fault_of(request.tiling)})
    if (!fault.empty()) throw ShapeError(fault);
  if (const std::string fault = fault_of_recording(p, request.tiling); !fault.empty())
    throw std::length_error(fault);
  if (request.head < 0 || request.head >= p.batch * p.heads_q)
    throw ShapeError("head " + std::to_string(request.head) + " of " + std::to_string(p.batch * p.heads_q));
  require_size("Q", request.q, elements(p, p.heads_q, p.seqlen_q, p.head_dim));
  require_size("K", request.k, elements(p, p.heads_kv, p.seqlen_k, p.head_dim));
  require_size("V", request.v, elements(p, p.heads_kv, p.seqlen_k, p.head_dim));
  if (request.backward) require_size("dO", request.d_o, elements(p, p.heads_q, p.seqlen_q, p.head_dim));
  Recording out;
  out.problem = p;
  out.tiling = request.tiling;
  out.backward = request.backward;
  out.placement = request.placement;
  out.capacity = request.capacity;
  out.heads = p.group();
  out.head = request.head / p.group() * p.group();
  out.has_standard = static_cast<bool>(request.standard);
  if (p.dtype == Dtype::fp64)
    record_into<double>(out, request);
  else
    record_into<float>(out, request);
  return out;
}

}  // namespace flashsim

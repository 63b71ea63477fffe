#include "simulator/executors/l2/device.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "cpu_reference/turns.h"
#include "simulator/executors/l2/agenda.h"

namespace flashsim::l2 {
namespace {

constexpr std::size_t memory_for_recordings = std::size_t{1} << 29;
constexpr int sectors_of_line = 4;  // 32 of 128 bytes each

/// Fine enough that few bytes hang on one line, coarse enough that n = 131,072 takes seconds.
std::int64_t sample_bytes_for(const Problem& p, const Tiling& t) {
  const double row_blocks = std::ceil(static_cast<double>(p.seqlen_q) / t.block_q);
  const double requested =
      row_blocks * p.seqlen_k * p.head_dim * bytes_of(p.dtype) * 2.0 * p.batch * p.heads_q;
  const double wanted = std::clamp(requested / 200'000, 512.0, 16'384.0);
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(wanted)));
}

}  // namespace

/// The thread blocks of a launch in the order in which they start, recorded when they do. Where a schedule's
/// thread block goes through rows that have nothing in common, the kernel's are a row, or a few: each step is
/// one.
class ReplayDevice::Grid {
 public:
  /// Steps first ... end - 1 of a recording: what a place works on until it takes more.
  struct Share {
    std::shared_ptr<const Recording> block;  // null: nothing is left
    std::uint32_t first = 0, end = 0;
  };
  Grid(const Problem& p, Recorder& recorder, Blocks rows, Blocks cols, const Body2D& body)
      : rows_(rows),
        cols_(cols),
        body_(body),
        recorder_(recorder),
        sm_(p, recorder),
        per_head_(std::int64_t{rows.count()} * cols.count()),
        count_(per_head_ * p.batch * p.heads_kv),
        kept_(p.batch * p.heads_kv > 1 ? static_cast<std::size_t>(per_head_) : 0) {}

  std::int64_t count() const { return count_; }
  bool persistent() const { return rows_.deal != Deal::when_free; }
  std::int64_t head_kv() const { return head_kv_; }  // of the last taken, counted over the batch
  /// How many thread blocks can run at once, if there is room.
  std::int64_t shares() {
    return step_by_step()
               ? count_ * std::max<std::int64_t>(1, static_cast<std::int64_t>(first().steps.size()))
               : count_;
  }

  const Recording& first() {
    if (first_ == nullptr && count_ > 0) first_ = record(0);
    return first_ != nullptr ? *first_ : none_;
  }
  /// How many places there are to take blocks.
  void share_among(std::size_t places) {
    drawn_ = rows_.deal == Deal::one_ahead ? static_cast<std::int64_t>(places) : 0;
    turn_.resize(places);
    std::iota(turn_.begin(), turn_.end(), std::int64_t{0});
  }
  /// What a place takes next.
  Share take(std::size_t place) {
    if (!step_by_step()) {
      std::shared_ptr<const Recording> block = take_block(place);
      const auto steps = static_cast<std::uint32_t>(block != nullptr ? block->steps.size() : 0);
      return {std::move(block), 0, steps};
    }
    if (open_ == nullptr || next_step_ == open_->steps.size()) {
      open_ = take_block(place);
      next_step_ = 0;
    }
    if (open_ == nullptr || open_->steps.empty()) return {open_, 0, 0};
    ++next_step_;
    return {open_, next_step_ - 1, next_step_};
  }

 private:
  bool step_by_step() { return rows_.deal == Deal::when_free && first().rows_apart; }
  std::shared_ptr<const Recording> take_block(std::size_t place) {
    const std::int64_t n = next_of(place);
    if (n >= count_) return nullptr;
    const auto k = static_cast<std::size_t>(place_of(n));
    if (k == 0 && first_ != nullptr) return first_;
    if (k < kept_.size() && kept_[k] != nullptr) return kept_[k];
    std::shared_ptr<const Recording> r = record(static_cast<std::int64_t>(k));
    if (k < kept_.size() && memory_ < memory_for_recordings) {
      memory_ += r->memory();
      kept_[k] = r;
    }
    return r;
  }
  std::int64_t next_of(std::size_t place) {
    if (rows_.deal == Deal::when_free) return drawn_++;
    const std::int64_t n = turn_[place];
    turn_[place] = rows_.deal == Deal::fixed ? n + static_cast<std::int64_t>(turn_.size()) : drawn_++;
    return n;
  }
  /// The n-th block's place among those of its K/V head, which becomes head_kv().
  std::int64_t place_of(std::int64_t n) {
    if ((rows_.heads_together <= 1 && rows_.late == 0) || cols_.count() != 1) {
      head_kv_ = n / per_head_;
      return n % per_head_;
    }
    const std::int64_t in_head = rows_.per_group(), together = rows_.heads_together;
    const auto [head_q, block] = turn_of<std::int64_t>(n, count_ / in_head, together, in_head, rows_.late);
    head_kv_ = head_q / rows_.groups;
    return head_q % rows_.groups * in_head + block;
  }
  std::shared_ptr<const Recording> record(std::int64_t k) {
    const Block i = rows_[static_cast<int>(k / cols_.count())],
                j = cols_[static_cast<int>(k % cols_.count())];
    sm_.begin_block();
    body_(sm_, i, j);
    Recording recording = recorder_.finish();
    if (recording.multiplies) {
      // The tensor cores work on whole tiles: rows beyond the tensor's edge take their time, too.
      const double whole = static_cast<double>(std::min(rows_.size, rows_.n)) / i.rows *
                           std::min(cols_.size, cols_.n) / j.rows;
      for (Step& step : recording.steps) step.work = static_cast<float>(step.work * whole);
    }
    return std::make_shared<const Recording>(std::move(recording));
  }

  Blocks rows_, cols_;
  const Body2D& body_;
  Recorder& recorder_;
  Machine sm_;
  std::int64_t per_head_, count_, drawn_ = 0, head_kv_ = 0;
  std::vector<std::int64_t> turn_;  // of every place: the block that it takes next, where that is settled
  std::vector<std::shared_ptr<const Recording>> kept_;
  std::size_t memory_ = 0;
  std::shared_ptr<const Recording> first_, open_;  // open_: whose next step is next_step_, see step_by_step
  std::uint32_t next_step_ = 0;
  Recording none_;
};

/// A place on an SM that holds one thread block at a time.
struct ReplayDevice::Slot {
  int sm = 0, side = 0;
  int head_q = 0, head_kv = 0;  // first query head and K/V head, counted over the batch
  std::shared_ptr<const Recording> block;
  const Step* steps = nullptr;  // block's, at hand: following pointers takes longer than a step's work
  const Touch* touches = nullptr;
  std::uint32_t step = 0, step_end = 0;
  std::uint32_t loaded = 0, touched = 0;  // ends of what the step before has loaded and will have touched
  bool first = true;                      // no step of the thread block has begun
  std::int64_t number = 0;                // of the thread block, in the order in which they start
};

ReplayDevice::ReplayDevice(const Problem& p, const Tiling& t, const L2Options& options)
    : p_(p),
      t_(t),
      options_(options),
      gpu_(options.gpu != nullptr ? *options.gpu : *find_gpu("h200")),
      sample_bytes_(options.sample_bytes > 0 ? options.sample_bytes : sample_bytes_for(p, t)),
      draws_(options.seed),
      partitions_(options.card != nullptr ? options.card->partitions : gpu_.l2_partitions),
      cache_(options.l2_bytes >= 0     ? options.l2_bytes
             : options.card != nullptr ? options.card->l2_bytes
                                       : gpu_.l2_bytes,
             partitions_, sample_bytes_, options.seed,
             options.card != nullptr ? options.card->usable : Cache::default_usable),
      map_(p, t, sample_bytes_, options.tensors_apart, cache_),
      recorder_(p, t, map_) {
  for (int i = 0; i < gpu_.sm_count; ++i) {
    speed_.push_back(std::max(0.1, 1 + options_.drift.sm_speed_spread * draws_.normal()));
    side_.push_back(2 * i < gpu_.sm_count || partitions_ == 1 ? 0 : 1);
  }
  for (std::uint32_t i = static_cast<std::uint32_t>(gpu_.sm_count); i > 1; --i)
    std::swap(side_[i - 1], side_[draws_.below(i)]);
  if (options_.dirty_bytes_before > 0) {
    const std::uint16_t area = map_.add_area(options_.dirty_bytes_before);
    for (std::uint32_t k = 0; k < map_.areas()[area].pieces; ++k)
      cache_.write(map_.areas()[area].first_line + k, 0, area);
  }
}

int ReplayDevice::blocks_per_sm(const Recording& first) const {
  if (first.multiplies && options_.blocks_per_sm > 0) return options_.blocks_per_sm;
  const int threads = 32 * (t_.warps + (first.has_producer ? 4 : 0));
  // Compilers give a kernel with accumulators every register they can, a streaming one few.
  const int registers = first.multiplies ? std::min(255, gpu_.registers_per_sm / threads) : 32;
  return std::max(1, gpu_.blocks_that_fit(first.shared_bytes, std::min(threads, 1024), registers / 8 * 8));
}

bool ReplayDevice::replay(const Slot& slot, std::uint32_t begin, std::uint32_t end) {
  bool from_dram = false;
  const Touch* touches = slot.touches;
  for (std::uint32_t i = begin; i < end; ++i) {
    const Touch touch = touches[i];
    const Area& area = map_.areas()[touch.area];
    auto head =
        static_cast<std::uint32_t>(is_key_side(area.tensor) ? slot.head_kv : slot.head_q + touch.group);
    if (area.every > 1) {
      if (head % static_cast<std::uint32_t>(area.every) != 0) continue;
      head /= static_cast<std::uint32_t>(area.every);
    }
    const std::uint32_t line = area.first_line + head * area.pieces + touch.piece;
    Counters& c = counters_[touch.area];
    switch (static_cast<Access>(touch.access)) {
      case Access::read: {
        const Found found = cache_.read(line, slot.side, touch.area);
        ++c.reads;
        c.cold += found == Found::cold;
        c.missed += reads_dram(found);
        from_dram |= reads_dram(found);
        if (touch.by_sectors != 0) cache_.again(line, slot.side, false, sectors_of_line - 1);
        break;
      }
      case Access::write:
        ++c.writes;
        cache_.write(line, slot.side, touch.area);
        if (touch.by_sectors != 0) cache_.again(line, slot.side, true, sectors_of_line - 1);
        break;
      case Access::reduce:
        ++c.writes;
        c.fetched += reads_dram(cache_.reduce(line, slot.side, touch.area));
        break;
    }
  }
  return from_dram;
}

void ReplayDevice::interleave(Grid& grid, int per_sm, std::uint16_t spills) {
  const Drift& drift = options_.drift;
  const int sms = gpu_.sm_count;
  std::vector<Slot> slots(
      static_cast<std::size_t>(std::min<std::int64_t>(grid.shares(), std::int64_t{sms} * per_sm)));
  grid.share_among(slots.size());
  std::vector<int> active(sms, 0);
  const double noise = per_sm == 1 ? drift.step_noise_alone : drift.step_noise;
  // The first thread blocks go to the SMs in an order of the hardware's, which small launches do not share
  // evenly between the sides.
  const std::vector<int>* sides =
      options_.card != nullptr
          ? options_.card->sides_of(std::min(slots.size(), static_cast<std::size_t>(sms)))
          : nullptr;
  std::vector<double> alone(per_sm + 1, 1);  // by the thread blocks that an SM holds
  for (int a = 1; a <= per_sm; ++a)
    alone[a] = std::pow(static_cast<double>(a) / per_sm, -std::log2(std::clamp(drift.alone, 0.5, 1.0)));
  std::int64_t started = 0;
  const auto next_block = [&](Slot& slot) {
    for (;;) {
      const Grid::Share share = grid.take(static_cast<std::size_t>(&slot - slots.data()));
      slot.block = share.block;
      if (slot.block == nullptr) return false;
      slot.steps = slot.block->steps.data();
      slot.touches = slot.block->touches.data();
      slot.step = share.first;
      slot.step_end = share.end;
      slot.loaded = slot.touched = share.first == 0 ? 0 : slot.steps[share.first - 1].end;
      slot.first = true;
      slot.number = started++;
      slot.head_kv = static_cast<int>(grid.head_kv());
      slot.head_q = slot.head_kv * p_.group();
      if (share.first == 0)
        for (const Recording::Bytes& bytes : slot.block->bytes) {
          Counters& c = counters(bytes.area);
          c.read += bytes.read;
          c.written += bytes.written;
          c.requested_read += bytes.requested_read;
          c.requested_written += bytes.requested_written;
        }
      if (share.end > share.first) return true;  // tiles that the mask hides have no steps
    }
  };
  // A place's share of the sampled lines of spilled registers: some have none where a line stands for more.
  const std::uint32_t spill_lines = options_.spilled_bytes_per_block > 0 ? map_.areas()[spills].pieces : 0;
  const auto spill_line = [&](std::size_t s) {
    return map_.areas()[spills].first_line + static_cast<std::uint32_t>(s * spill_lines / slots.size());
  };

  std::vector<Agenda::Entry> starts;
  for (int s = 0; s < static_cast<int>(slots.size()); ++s) {
    Slot& slot = slots[s];
    slot.sm = s % sms;
    slot.side = sides != nullptr ? (*sides)[static_cast<std::size_t>(slot.sm)] : side_[slot.sm];
    if (!next_block(slot)) break;
    ++active[slot.sm];
    starts.push_back({draws_.uniform() * drift.start_spread * slot.steps[slot.step].work, s});
  }
  Agenda agenda(std::move(starts));
  // Of two thread blocks on an SM: whether the other one is younger, older, or not there.
  const auto pace = [&](const Slot& slot, int s) {
    if (per_sm != 2 || active[slot.sm] != 2) return 1.0;
    const Slot& other = slots[static_cast<std::size_t>(s < sms ? s + sms : s - sms)];
    return other.number > slot.number ? 1 - drift.older_first : 1 + drift.older_first;
  };
  while (!agenda.empty()) {
    const auto [now, s] = agenda.top();
    Slot& slot = slots[s];
    replay(slot, slot.loaded, slot.touched);  // what the step that ends now stores
    if (spill_lines > 0 && !slot.first)
      for (std::uint32_t line = spill_line(static_cast<std::size_t>(s));
           line < spill_line(static_cast<std::size_t>(s) + 1); ++line)
        cache_.write(line, slot.side, spills);
    if (slot.step == slot.step_end && !next_block(slot)) {
      --active[slot.sm];
      agenda.remove_top();
      continue;
    }
    const Step step = slot.steps[slot.step++];
    double time = std::exchange(slot.first, false) ? 1 + drift.first_step : 1;
    if (replay(slot, slot.touched, step.loaded)) time += drift.dram_penalty;
    time *= step.work * speed_[slot.sm] * (1 + noise * (2 * draws_.uniform() - 1)) * alone[active[slot.sm]] *
            pace(slot, s);
    slot.loaded = step.loaded;
    slot.touched = step.end;
    // By the time this slot's turn comes again, the others have displaced its place in the recording.
    __builtin_prefetch(slot.steps + slot.step + 8);
    __builtin_prefetch(slot.touches + slot.touched + 8);
    agenda.postpone_top(now + time);
  }
}

void ReplayDevice::launch(std::string_view name, Blocks rows, Blocks cols, const Body2D& body) {
  L2Kernel kernel;
  kernel.name = name;
  Grid grid(p_, recorder_, rows, cols, body);
  kernel.thread_blocks = grid.count();
  if (grid.count() > 0) {
    kernel.blocks_per_sm = grid.persistent() ? 1 : blocks_per_sm(grid.first());
    std::uint16_t spills = 0;
    if (options_.spilled_bytes_per_block > 0) {
      const std::int64_t slots =
          std::min<std::int64_t>(grid.shares(), std::int64_t{gpu_.sm_count} * kernel.blocks_per_sm);
      spills = map_.add_area(slots * options_.spilled_bytes_per_block);
    }
    interleave(grid, kernel.blocks_per_sm, spills);
  }
  account(kernel);
  result_.kernels.push_back(std::move(kernel));
}

L2Traffic& ReplayDevice::traffic(std::uint16_t area, std::array<L2Traffic, tensor_count>& tensors,
                                 L2Traffic& other) const {
  const Tensor x = map_.areas()[area].tensor;
  return x == Tensor::count ? other : tensors[static_cast<int>(x)];
}

double ReplayDevice::written_per_line(std::uint16_t area) const {
  const Counters& c = counters_[area];
  return c.written_per_line > 0 ? c.written_per_line : map_.areas()[area].bytes;
}

/// Bytes from sampled lines. A line that is read once stands for its piece of the tensor. What is read again
/// is scaled such that if every read missed, DRAM bytes would be the requested ones.
void ReplayDevice::account(L2Kernel& kernel) {
  counters_.resize(map_.areas().size());
  const auto areas = static_cast<std::uint16_t>(counters_.size());
  for (std::uint16_t i = 0; i < areas; ++i) {
    Counters& c = counters_[i];
    const double piece = map_.areas()[i].bytes;
    L2Traffic& t = traffic(i, kernel.tensors, kernel.other);
    t.requested_read += c.requested_read;
    t.requested_written += c.requested_written;
    const double cold = std::min(c.read, static_cast<double>(c.cold) * piece);
    if (c.reads == c.cold)
      t.dram_read += c.read;
    else
      t.dram_read += cold + (c.read - cold) * static_cast<double>(c.missed - c.cold) /
                                static_cast<double>(c.reads - c.cold);
    t.dram_read += static_cast<double>(c.fetched) * piece;
    // A line stands for what was written there on average, by this kernel or the ones before that left it
    // dirty, but never for more than is still owed.
    c.owed += c.written;
    if (c.writes > 0) {
      const auto before = static_cast<double>(c.dirty_before);
      c.written_per_line =
          (c.written + before * c.written_per_line) / (static_cast<double>(c.writes) + before);
    }
    const std::int64_t cleaned = cache_.cleaned(i);
    double written = static_cast<double>(cleaned - c.cleaned_before) * written_per_line(i);
    if (c.writes == 0) written += c.written;  // less than a sampled line
    if (map_.areas()[i].tensor != Tensor::count) written = std::min(written, c.owed);
    t.dram_written += written;
    c = {.cleaned_before = cleaned,
         .dirty_before = cache_.dirty(i),
         .written_per_line = c.written_per_line,
         .owed = c.owed - written};
  }
  for (int x = 0; x < tensor_count; ++x) result_.tensors[x] += kernel.tensors[x];
  result_.other += kernel.other;
}

L2Result ReplayDevice::result() {
  const auto areas = static_cast<std::uint16_t>(counters_.size());
  for (std::uint16_t i = 0; i < areas; ++i) {
    double dirty = static_cast<double>(cache_.dirty(i)) * written_per_line(i);
    if (map_.areas()[i].tensor != Tensor::count) dirty = std::min(dirty, counters_[i].owed);
    traffic(i, result_.tensors, result_.other).left_dirty += dirty;
  }
  result_.fabric_bytes = static_cast<double>(cache_.fabric_lines() * sample_bytes_);
  return std::move(result_);
}

}  // namespace flashsim::l2

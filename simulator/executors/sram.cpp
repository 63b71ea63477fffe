#include "simulator/executors/sram.h"

#include <algorithm>

namespace flashsim {

void Sram::begin_kernel(const Launch& l) {
  kernel_ = l.name;
  if (next_ != nullptr) next_->begin_kernel(l);
}

void Sram::begin_block(const ThreadBlock& b) {
  live_.clear();
  rings_.clear();
  roles_.fill({});
  ring_bytes_ = sram_ = registers_ = 0;
  if (next_ != nullptr) next_->begin_block(b);
}

void Sram::end_block() {
  if (next_ != nullptr) next_->end_block();
}
void Sram::end_kernel() {
  if (next_ != nullptr) next_->end_kernel();
}

int Sram::width_of(const TileRef& t) const {
  const int width = bytes_of(t.dtype);
  if (placement_ == Placement::kernel) return width;
  return t.cols == 1 ? std::min(width, 4) : std::min(width, bytes_of(p_.dtype));
}

void Sram::execute(const Operation& o) {
  if (o.out != nullptr && o.out->slot != TileRef::no_slot &&
      (o.out->slot >= live_.size() || live_[o.out->slot].rows == 0))
    allocate(*o.out, o);
  // In place, a tile goes on under its new name.
  if (o.out != nullptr && o.out->slot != TileRef::no_slot) live_[o.out->slot].tensor = o.out->tensor;
  if (next_ != nullptr) next_->execute(o);
}

void Sram::allocate(const TileRef& t, const Operation& o) {
  if (t.slot >= live_.size()) live_.resize(t.slot + 1);
  if (t.ring >= 0) {  // the ring holds the bytes already
    RingUse& ring = rings_[t.ring];
    live_[t.slot] = {t.tensor, t.rows, t.cols, 0, true};
    if (++ring.used > ring.stages)
      throw CapacityError(kernel_ + ": all " + std::to_string(ring.stages) + " stages of " +
                          std::string(name_of(t.tensor)) +
                          " are held; release a tile before taking the next, or add stages");
    return;
  }
  const bool in_sram = placement_ == Placement::paper || (o.kind == Op::load && t.cols > 1);
  const std::int64_t bytes = t.size() * width_of(t);
  live_[t.slot] = {t.tensor, t.rows, t.cols, bytes, in_sram};
  (in_sram ? sram_ : registers_) += bytes;
  // Roles run one after another here but at the same time on the machine: the block holds its rings and every
  // role's peak.
  RoleUse& role = roles_[std::min<std::size_t>(o.role, roles_.size() - 1)];
  (in_sram ? role.sram : role.registers) += bytes;
  role.peak_sram = std::max(role.peak_sram, role.sram);
  role.peak_registers = std::max(role.peak_registers, role.registers);
  std::int64_t held = ring_bytes_, registers = 0;
  for (const RoleUse& r : roles_) {
    held += r.peak_sram;
    registers += r.peak_registers;
  }
  if (held > capacity_) exceeded(t, bytes, held);
  peak_registers_ = std::max(peak_registers_, registers);
  if (held > peak_sram_) {
    peak_sram_ = held;
    at_peak_ = live();
  }
}

namespace {
/// Shared memory comes in KiB: "128 KiB", "2.5 KiB", "384 bytes".
std::string kibibytes(std::int64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  const std::int64_t tenths = (bytes * 10 + 512) / 1024;
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " KiB";
}
}  // namespace

void Sram::exceeded(const TileRef& t, std::int64_t bytes, std::int64_t held) {
  std::string message = kernel_ + ": tile " + std::string(name_of(t.tensor)) + " of " +
                        std::to_string(t.rows) + " x " + std::to_string(t.cols) + " needs " +
                        kibibytes(bytes) + "; then " + kibibytes(held) + " of " + kibibytes(capacity_) +
                        " would be in use (";
  bool first = true;
  for (const LiveTile& x : live())
    if (x.in_sram && x.bytes > 0) {
      message += (first ? "" : ", ") + std::string(name_of(x.tensor)) + " " + kibibytes(x.bytes);
      first = false;
    }
  message += ")";
  if (placement_ == Placement::kernel) throw CapacityError(message);
  if (overflow_.empty()) overflow_ = message;
}

void Sram::allocate_ring(const TileRef& shape, int stages) {
  const std::int64_t bytes = shape.size() * width_of(shape) * stages;
  rings_.push_back({0, stages, {shape.tensor, shape.rows * stages, shape.cols, bytes, true}});
  ring_bytes_ += bytes;
  sram_ += bytes;
  if (ring_bytes_ > capacity_) exceeded(shape, bytes, ring_bytes_);
  if (ring_bytes_ > peak_sram_) {
    peak_sram_ = ring_bytes_;
    at_peak_ = live();
  }
  if (next_ != nullptr) next_->allocate_ring(shape, stages);
}

void Sram::release(const TileRef& t, int role) noexcept {
  if (t.slot < live_.size() && live_[t.slot].rows > 0) {
    LiveTile& x = live_[t.slot];
    if (t.ring >= 0) {
      --rings_[t.ring].used;
    } else {
      RoleUse& use = roles_[std::min<std::size_t>(role, roles_.size() - 1)];
      (x.in_sram ? sram_ : registers_) -= x.bytes;
      (x.in_sram ? use.sram : use.registers) -= x.bytes;
    }
    x = {};
  }
  if (next_ != nullptr) next_->release(t, role);
}

std::vector<LiveTile> Sram::live() const {
  std::vector<LiveTile> tiles;
  for (const RingUse& r : rings_) tiles.push_back(r.stage);
  for (const LiveTile& x : live_)
    if (x.rows > 0 && x.bytes > 0) tiles.push_back(x);
  return tiles;
}

namespace {

using Bind = std::function<Program(const Problem&, const Tiling&)>;

SramUse run_few_rows(const Bind& bind, Problem p, const Tiling& t, Placement placement,
                     std::int64_t capacity) {
  // The last two row blocks (masks are aligned bottom-right, so fewer queries are the last ones) show every
  // tile there is; the columns stay, because a softmax kernel holds whole rows.
  p.seqlen_q = std::min(p.seqlen_q, 2 * t.block_q);
  p.batch = 1;
  Sram sram(p, placement, capacity);
  bind(p, t)(sram, Heads::one);
  return {sram.peak_sram(), sram.peak_registers(), sram.at_peak(), sram.overflow()};
}

int largest_square_block(const Bind& bind, const Problem& p, Tiling t, Placement placement,
                         std::int64_t capacity) {
  for (int block = std::max(t.block_q, t.block_k) / 16 * 16; block >= 16; block -= 16) {
    t.block_q = t.block_k = block;
    try {
      if (run_few_rows(bind, p, t, placement, capacity).overflow.empty()) return block;
    } catch (const CapacityError&) {}
  }
  return 0;
}

}  // namespace

SramUse sram_use_of(const Bind& bind, const Problem& p, const Tiling& t, Placement placement,
                    std::int64_t capacity) {
  const auto with_advice = [&](const std::string& overflow) {
    const int block = largest_square_block(bind, p, t, placement, capacity);
    return overflow + "; " +
           (block > 0 ? "the largest square block that fits is " + std::to_string(block)
                      : "not even blocks of 16 rows fit");
  };
  try {
    SramUse use = run_few_rows(bind, p, t, placement, capacity);
    if (!use.overflow.empty()) use.overflow = with_advice(use.overflow);
    return use;
  } catch (const CapacityError& e) {
    throw CapacityError(with_advice(e.what()));
  }
}

SramUse sram_use(const std::function<void(Device&, const Problem&, const Tiling&)>& schedule,
                 const Problem& p, const Tiling& t, Placement placement, std::int64_t capacity) {
  const Bind bind = [&schedule](const Problem& few, const Tiling& tiling) -> Program {
    return [&schedule, few, tiling](Executor& executor, Heads heads) {
      SerialDevice gpu(few, executor, heads);
      schedule(gpu, few, tiling);
    };
  };
  return sram_use_of(bind, p, t, placement, capacity);
}

}  // namespace flashsim

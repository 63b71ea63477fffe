#include "simulator/executors/timeline/block_streams.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "simulator/executors/work.h"

namespace flashsim::timeline {
namespace {

constexpr std::int64_t most_steps = 2'000'000;

/// What an operation asks of each unit, in clocks.
std::array<double, unit_count> clocks_of(const Operation& o, const Problem& p, const SmRates& rates) {
  const Work w = work_of(o);
  std::array<double, unit_count> work{};
  work[static_cast<int>(Unit::tensor_cores)] = static_cast<double>(w.matmul_flops);
  work[static_cast<int>(Unit::exponentials)] = static_cast<double>(w.exps);
  work[static_cast<int>(Unit::cuda_cores)] = static_cast<double>(w.other_flops - w.exps);
  if (o.kind == Op::load || o.kind == Op::store || o.kind == Op::reduce_add || o.kind == Op::reduce_max) {
    const TileRef& tile = o.kind == Op::load ? *o.out : *o.a;
    work[static_cast<int>(Unit::copies)] = static_cast<double>(tile.size() * bytes_in_hbm(o.tensor, p));
  }
  std::array<double, unit_count> clocks{};
  for (int u = 0; u < unit_count; ++u)
    if (work[u] > 0) clocks[u] = work[u] / rates.per_clock[u];
  return clocks;
}

}  // namespace

int resident_of(const Request& r, std::size_t k) {
  return k < r.resident.size() ? std::max(1, r.resident[k]) : 1;
}

void StreamRecorder::begin_kernel(const Launch& l) {
  const int resident = resident_of(request_, kernels_.size());
  KernelStreams k;
  k.name = l.name;
  k.blocks_per_head = l.blocks;
  const std::int64_t grid = l.blocks * p_.batch * p_.heads_kv;
  const std::int64_t most = request_.most_blocks > 0 ? request_.most_blocks : resident;
  for (std::int64_t b = 0; b < grid && static_cast<std::int64_t>(k.chosen.size()) < most;
       b += request_.sm_count) {
    k.chosen.push_back(b);
    k.blocks[b % l.blocks];
  }
  kernels_.push_back(std::move(k));
  text_number_.clear();
  next_ = 0;
}

void StreamRecorder::begin_block(const ThreadBlock& b) {
  KernelStreams& k = kernels_.back();
  const auto found = k.blocks.find(next_++);
  now_ = found == k.blocks.end() ? nullptr : &found->second;
  if (now_ == nullptr) return;
  now_->block = b;
  pseudocode_.begin_block();
  taken_.clear();
}

std::vector<Step>& StreamRecorder::stream(int role) {
  const auto place = static_cast<std::size_t>(role);
  if (now_->roles.size() <= place) now_->roles.resize(place + 1);
  return now_->roles[place];
}

std::int32_t StreamRecorder::text_of(const Operation& o) {
  std::vector<std::string>& texts = kernels_.back().texts;
  const auto [found, is_new] =
      text_number_.try_emplace(pseudocode_.line(o), static_cast<std::int32_t>(texts.size()));
  if (is_new) texts.push_back(found->first);
  return found->second;
}

void StreamRecorder::add(const Operation& o, Step&& s) {
  if (++steps_ > most_steps)
    throw std::length_error(
        "a timeline of more than two million operations is too much; choose shorter sequences, larger blocks "
        "or "
        "fewer thread blocks");
  stream(o.role).push_back(s);
}

void StreamRecorder::execute(const Operation& o) {
  if (now_ == nullptr) return;
  Step s;
  s.op = o.kind;
  s.async = o.async;
  s.text = text_of(o);
  const bool from_tile = o.kind == Op::store || o.kind == Op::reduce_add || o.kind == Op::reduce_max;
  s.tensor = from_tile || o.kind == Op::load ? o.tensor : o.out->tensor;
  if (o.out != nullptr) {
    s.slot = o.out->slot;
    s.ring = o.out->ring;
  }
  s.clocks = clocks_of(o, p_, request_.rates);
  if (o.kind == Op::wait) {
    s.what = Step::What::wait;
  } else if (o.kind == Op::load && o.async) {
    s.what = Step::What::prefetch;
  } else if (o.kind == Op::take) {
    s.what = Step::What::take;
    const int k = taken_[{o.role, s.ring}]++;
    std::vector<int>& takers = now_->rings.at(static_cast<std::size_t>(s.ring)).takers;
    if (static_cast<int>(takers.size()) <= k) takers.resize(static_cast<std::size_t>(k) + 1);
    ++takers[static_cast<std::size_t>(k)];
  } else if (std::all_of(s.clocks.begin(), s.clocks.end(), [](double c) { return c == 0; })) {
    return;  // takes no time
  }
  add(o, std::move(s));
}

void StreamRecorder::allocate_ring(const TileRef& /*shape*/, int stages) {
  if (now_ != nullptr) now_->rings.push_back({stages, {}});
}

void StreamRecorder::release(const TileRef& t, int role) noexcept {
  if (now_ == nullptr) return;
  pseudocode_.release(t);
  if (t.ring < 0 || t.slot == TileRef::no_slot) return;
  Step s;
  s.what = Step::What::free;
  s.ring = t.ring;
  s.slot = t.slot;
  s.tensor = t.tensor;
  try {
    stream(role).push_back(s);
  } catch (
      const std::bad_alloc&) {  // the stage is never freed: the replay will say that warpgroups wait for ever
  }
}

}  // namespace flashsim::timeline

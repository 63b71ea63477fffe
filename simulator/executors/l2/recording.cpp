#include "simulator/executors/l2/recording.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "simulator/executors/l2/requests.h"

namespace flashsim::l2 {

static_assert(tensor_count <= 64, "Recorder::loaded_ has a bit for each tensor");

namespace {

bool each_loaded_once(const std::vector<Touch>& touches) {
  std::set<std::tuple<int, int, std::uint32_t>> loaded;
  return std::all_of(touches.begin(), touches.end(), [&](const Touch& t) {
    return static_cast<Access>(t.access) != Access::read ||
           loaded.emplace(int{t.area}, int{t.group}, t.piece).second;
  });
}

}  // namespace

void Recorder::begins_step_if_loaded(int role, Tensor x) {
  const std::uint64_t bit = 1ULL << static_cast<int>(x);
  if ((loaded_[role] & bit) != 0) {
    loaded_[role] = 0;
    if (++step_[role] == work_.size()) work_.emplace_back();
  }
  loaded_[role] |= bit;
}

std::int64_t Recorder::count(const Operation& op, std::uint16_t area, bool written) {
  const TileRef& tile = written ? *op.a : *op.out;
  const std::int64_t bytes = tile.size() * map_.element_bytes(area);
  auto& all = recording_.bytes;
  auto entry = std::find_if(all.begin(), all.end(), [area](const auto& b) { return b.area == area; });
  if (entry == all.end()) entry = all.insert(all.end(), {area});
  const double requested = requested_bytes(op, written, p_, t_);
  // What pads a row of S, P, dP or dS to whole sectors is moved with it, to and from DRAM, too.
  (written ? entry->written : entry->read) +=
      is_score_shaped(op.tensor) ? requested : static_cast<double>(bytes);
  (written ? entry->requested_written : entry->requested_read) += requested;
  return bytes;
}

void Recorder::load(const Operation& op, int role) {
  if (op.out->ring >= 0 && op.async) {
    const std::size_t ring = static_cast<std::uint8_t>(op.out->ring);
    if (queues_.size() <= ring) queues_.resize(ring + 1);
    Queue& q = queues_[ring];
    count(op, map_.touch(op, Access::read, q.touches), false);
    q.ends.push_back(static_cast<std::uint32_t>(q.touches.size()));
    recording_.has_producer = true;
    return;
  }
  begins_step_if_loaded(role, op.tensor);
  const std::size_t begin = recording_.touches.size();
  const std::uint16_t area = map_.touch(op, Access::read, recording_.touches);
  stamp(role);
  step_of(role).bytes += static_cast<double>(count(op, area, false));
  const std::int64_t bytes = op.out->size() * map_.element_bytes(area);
  if (held_.size() <= op.out->slot) held_.resize(op.out->slot + 1);
  held_[op.out->slot] = {bytes, begin, recording_.touches.size(), false};
  shared_bytes_ += bytes;
  recording_.shared_bytes = std::max(recording_.shared_bytes, shared_bytes_);
}

void Recorder::take(const Operation& op, int role) {
  begins_step_if_loaded(role, op.tensor);
  const std::size_t ring = static_cast<std::uint8_t>(op.out->ring);
  if (queues_.size() <= ring) return;
  Queue& q = queues_[ring];
  const std::size_t k = q.taken[role]++;
  if (k < q.counted || k >= q.ends.size()) return;  // another consumer has it already
  q.counted = k + 1;
  recording_.touches.insert(recording_.touches.end(), q.touches.begin() + (k == 0 ? 0 : q.ends[k - 1]),
                            q.touches.begin() + q.ends[k]);
  stamp(role);
  step_of(role).bytes += static_cast<double>(op.out->size() * bytes_of(op.out->dtype));
}

void Recorder::by_sectors(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) recording_.touches[i].by_sectors = 1;
}

void Recorder::accumulate(const TileRef& tile) {
  if (tile.slot >= held_.size()) return;
  Held& held = held_[tile.slot];
  by_sectors(held.begin, held.end);
  held.accumulates = held.bytes > 0;
}

void Recorder::change(const Operation& op, int role, Access access) {
  const std::size_t begin = recording_.touches.size();
  const std::uint16_t area = map_.touch(op, access, recording_.touches);
  if (op.a->slot < held_.size() && held_[op.a->slot].accumulates)
    by_sectors(begin, recording_.touches.size());
  stamp(role);
  step_of(role).bytes += static_cast<double>(count(op, area, true));
}

void Recorder::execute(const Operation& op) {
  const int role = std::min<int>(op.role, roles - 1);
  const auto multiply = [&](std::int64_t inner) {
    recording_.multiplies = true;
    step_of(role).flops += 2.0 * static_cast<double>(op.out->size() * inner);
  };
  switch (op.kind) {
    case Op::load: load(op, role); break;
    case Op::take: take(op, role); break;
    case Op::store: change(op, role, Access::write); break;
    case Op::reduce_add:
    case Op::reduce_max: change(op, role, Access::reduce); break;
    case Op::matmul_nt: multiply(op.a->cols); break;
    case Op::add_matmul:
      multiply(op.a->cols);
      accumulate(*op.out);
      break;
    case Op::add_matmul_tn:
      multiply(op.a->rows);
      accumulate(*op.out);
      break;
    default: break;
  }
}

void Recorder::allocate_ring(const TileRef& shape, int stages) {
  shared_bytes_ += shape.size() * bytes_of(shape.dtype) * stages;  // until the thread block ends
  recording_.shared_bytes = std::max(recording_.shared_bytes, shared_bytes_);
}

void Recorder::release(const TileRef& tile, int) noexcept {
  if (tile.slot < held_.size()) shared_bytes_ -= std::exchange(held_[tile.slot], {}).bytes;
}

Recording Recorder::finish() {
  Recording r = std::exchange(recording_, {});
  std::vector<std::uint32_t> step_of_touch = std::exchange(step_of_touch_, {});
  const std::vector<Work> work = std::exchange(work_, std::vector<Work>(1));
  if (!std::is_sorted(step_of_touch.begin(), step_of_touch.end())) {
    // Several consumers were recorded one after another; they run side by side.
    std::vector<std::uint32_t> order(step_of_touch.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return step_of_touch[a] < step_of_touch[b]; });
    std::vector<Touch> touches;
    touches.reserve(order.size());
    for (std::uint32_t i : order) touches.push_back(r.touches[i]);
    r.touches = std::move(touches);
    std::sort(step_of_touch.begin(), step_of_touch.end());
  }
  // A product's time is that of the tensor cores, everything else's that of the bytes. Steps in which no
  // sampled line is touched are not worth a turn of their own: they join the next.
  double waiting = 0;
  std::size_t k = 0;
  for (std::uint32_t s = 0; s < work.size(); ++s) {
    waiting += r.multiplies ? work[s].flops : work[s].bytes;
    const std::size_t begin = k;
    while (k < step_of_touch.size() && step_of_touch[k] == s) ++k;
    if (k == begin && (s + 1 < work.size() || waiting <= 0)) continue;
    const auto at = [&](std::size_t i) { return r.touches.begin() + static_cast<std::ptrdiff_t>(i); };
    const auto stores = std::stable_partition(
        at(begin), at(k), [](const Touch& t) { return static_cast<Access>(t.access) == Access::read; });
    r.steps.push_back({static_cast<std::uint32_t>(stores - r.touches.begin()), static_cast<std::uint32_t>(k),
                       static_cast<float>(std::exchange(waiting, 0))});
  }
  r.rows_apart = !r.multiplies && r.steps.size() > 1 && each_loaded_once(r.touches);
  std::fill(step_, step_ + roles, 0u);
  std::fill(loaded_, loaded_ + roles, std::uint64_t{0});
  queues_.clear();
  held_.clear();
  shared_bytes_ = 0;
  return r;
}

}  // namespace flashsim::l2

#include "simulator/executors/l2/cache.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace flashsim::l2 {

Cache::Cache(std::int64_t bytes, int partitions, std::int64_t sample_bytes, std::uint64_t seed, double usable)
    : partitions_(partitions),
      sets_(static_cast<std::uint32_t>(usable * static_cast<double>(bytes) / partitions /
                                       static_cast<double>(sample_bytes) / ways)),
      run_(static_cast<std::uint32_t>(std::max<std::int64_t>(1, run_bytes / sample_bytes))),
      seed_(scatter(seed)),
      way_(std::size_t{sets_} * partitions * ways),
      filled_(std::size_t{sets_} * partitions, 0),
      oldest_(std::size_t{sets_} * partitions, ways),
      dirty_(std::size_t{sets_} * partitions, 0) {
  if (partitions < 1 || partitions > 2)
    throw std::invalid_argument("an L2 cache has 1 or 2 partitions, not " + std::to_string(partitions));
}

std::uint32_t Cache::add_lines(std::uint64_t lines, std::uint16_t owner) {
  const std::uint64_t run = 2ULL * run_, first = (place_.size() / 2 + run - 1) / run * run;
  if (first + lines > nothing / 2)
    throw std::length_error("the L2 model has no room for " + std::to_string(first + lines) +
                            " sampled lines; sample fewer (a larger sample_bytes)");
  place_.resize(2 * (first + lines), never);
  if (owner >= cleaned_.size()) cleaned_.resize(owner + 1, 0);
  return static_cast<std::uint32_t>(first);
}

std::uint32_t Cache::set_of(std::uint32_t entry) const {
  const std::uint32_t line = entry / 2, pair = line / 2,
                      kind = 2 * (entry & 1) + static_cast<std::uint32_t>(home_of(line));
  const std::uint64_t start = scatter((std::uint64_t{pair / run_} * 4 + kind) ^ seed_);
  return static_cast<std::uint32_t>((std::uint64_t{pair % run_} * sets_ / run_ + start) % sets_);
}

Found Cache::insert(std::uint32_t entry, int partition, std::uint16_t owner, bool dirty) {
  const Found found = place_[entry] == never ? Found::cold : Found::dram;
  if (sets_ == 0) {  // no cache: what is written goes straight on
    if (dirty) ++cleaned_[owner];
    place_[entry] = nothing;
    return found;
  }
  const std::uint32_t set = static_cast<std::uint32_t>(partition) * sets_ + set_of(entry), first = set * ways;
  std::uint32_t victim;
  if (filled_[set] < ways) {
    victim = first + filled_[set]++;
  } else {
    victim = first + oldest_[set];
    Way& old = way_[victim];
    if (old.entry != nothing) {
      place_[old.entry] = nothing;
      if (old.dirty) clean(old, set);
    }
  }
  way_[victim] = {entry, ++clock_, owner, dirty};
  place_[entry] = victim;
  if (filled_[set] == ways) find_oldest(set);
  if (dirty) {
    limit_dirty(set);
    clean_oldest(set);
  }
  return found;
}

void Cache::find_oldest(std::uint32_t set) {
  Way* const in_set = &way_[std::size_t{set} * ways];
  int oldest = 0;
  for (int i = 1; i < ways; ++i)  // the clock wraps: compare the distance
    if (static_cast<std::int32_t>(in_set[i].used - in_set[oldest].used) < 0) oldest = i;
  oldest_[set] = static_cast<std::uint8_t>(oldest);
}

void Cache::limit_dirty(std::uint32_t set) {
  if (++dirty_[set] <= most_dirty + static_cast<int>(set & 1)) return;
  Way* const in_set = &way_[std::size_t{set} * ways];
  Way* oldest = nullptr;
  for (Way* w = in_set; w != in_set + ways; ++w)
    if (w->dirty && (oldest == nullptr || static_cast<std::int32_t>(w->used - oldest->used) < 0)) oldest = w;
  clean(*oldest, set);
}

void Cache::clean_oldest(std::uint32_t set) {
  if (oldest_[set] == ways) return;  // the set is not full
  if (Way& next = way_[std::size_t{set} * ways + oldest_[set]]; next.dirty) clean(next, set);
}

void Cache::clean(Way& way, std::uint32_t set) {
  way.dirty = false;
  --dirty_[set];
  ++cleaned_[way.owner];
}

void Cache::drop(std::uint32_t entry) {
  const std::uint32_t w = place_[entry];
  if (w >= nothing) return;
  way_[w] = {nothing, clock_ - (1u << 30), 0, false};  // older than all others
  place_[entry] = nothing;
  if (filled_[w / ways] == ways) oldest_[w / ways] = static_cast<std::uint8_t>(w % ways);
}

std::int64_t Cache::dirty(std::uint16_t owner) const {
  return std::count_if(way_.begin(), way_.end(),
                       [owner](const Way& w) { return w.dirty && w.owner == owner; });
}

}  // namespace flashsim::l2

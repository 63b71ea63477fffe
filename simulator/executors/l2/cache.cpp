#include "simulator/executors/l2/cache.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace flashsim::l2 {
namespace {
std::uint32_t sets_a_side(std::int64_t bytes, int partitions, std::int64_t sample_bytes, double share) {
  return static_cast<std::uint32_t>(share * static_cast<double>(bytes) / partitions /
                                    static_cast<double>(sample_bytes) / Cache::ways);
}
}  // namespace

Cache::Cache(std::int64_t bytes, int partitions, std::int64_t sample_bytes, std::uint64_t seed, double usable)
    : partitions_(partitions),
      sets_(sets_a_side(bytes, partitions, sample_bytes, std::max(usable, default_usable))),
      seed_(scatter(seed)),
      placement_(std::max(1u, sets_), seed_),
      way_(std::size_t{sets_} * partitions * ways),
      ways_of_(std::size_t{sets_} * partitions, ways),
      filled_(std::size_t{sets_} * partitions, 0),
      oldest_(std::size_t{sets_} * partitions, ways),
      dirty_(std::size_t{sets_} * partitions, 0) {
  if (partitions < 1 || partitions > 2)
    throw std::invalid_argument("an L2 cache has 1 or 2 partitions, not " + std::to_string(partitions));
  const double taken = ways * std::max(0.0, 1 - usable / default_usable);
  Draws draws(seed_);
  for (std::uint8_t& n : ways_of_)
    n = static_cast<std::uint8_t>(std::max(1, ways - static_cast<int>(taken + draws.uniform())));
}

std::uint32_t Cache::add_lines(std::uint64_t lines, std::uint16_t owner, std::size_t region) {
  const std::uint64_t first = place_.size() / 2, pairs = (lines + 1) / 2;
  if (first + 2 * pairs > nothing / 2)
    throw std::length_error("the L2 model has no room for " + std::to_string(first + lines) +
                            " sampled lines; sample fewer (a larger sample_bytes)");
  place_.resize(2 * (first + 2 * pairs), never);
  if (owner >= cleaned_.size()) cleaned_.resize(owner + 1, 0), dirty_of_.resize(owner + 1, 0);
  for (std::size_t r = next_pair_.size(); r <= region; ++r)
    next_pair_.push_back((r + 1) << 40 | scatter(seed_ + r) >> 32);
  if (sets_ == 0) return static_cast<std::uint32_t>(first);
  for (std::uint64_t& pair = next_pair_[region]; set_.size() < first / 2 + pairs; ++pair)
    set_.push_back(placement_.set_of(pair));
  return static_cast<std::uint32_t>(first);
}

Found Cache::insert(std::uint32_t entry, int partition, std::uint16_t owner, bool dirty) {
  const Found found = place_[entry] == never ? Found::cold : Found::dram;
  if (sets_ == 0) {  // no cache: what is written goes straight on
    if (dirty) ++cleaned_[owner];
    place_[entry] = nothing;
    return found;
  }
  const std::uint32_t set = static_cast<std::uint32_t>(partition) * sets_ + set_[entry / 4],
                      first = set * ways;
  const bool next_was_dirty = clean_before_access(set);
  std::uint32_t victim;
  if (filled_[set] < ways_of_[set]) {
    victim = first + filled_[set]++;
  } else {
    victim = first + oldest_[set];
    if (next_was_dirty) {
      const Way* const stays = &way_[victim];
      const Way* const other = oldest(set, [stays](const Way& w) { return !w.dirty && &w != stays; });
      if (other != nullptr) victim = static_cast<std::uint32_t>(other - way_.data());
    }
    Way& old = way_[victim];
    if (old.entry != nothing) {
      place_[old.entry] = nothing;
      if (old.dirty) clean(old, set);
    }
  }
  way_[victim] = {entry, ++clock_, owner, dirty};
  place_[entry] = victim;
  if (filled_[set] == ways_of_[set]) find_oldest(set);
  if (dirty) ++dirty_[set], ++dirty_of_[owner];
  return found;
}

void Cache::find_oldest(std::uint32_t set) {
  const Way* const found = oldest(set, [](const Way&) { return true; });
  oldest_[set] = static_cast<std::uint8_t>(found - &way_[std::size_t{set} * ways]);
}

void Cache::clean(Way& way, std::uint32_t set) {
  way.dirty = false;
  --dirty_[set], --dirty_of_[way.owner];
  ++cleaned_[way.owner];
}

void Cache::drop(std::uint32_t entry) {
  const std::uint32_t w = place_[entry];
  if (w >= nothing) return;
  way_[w] = {nothing, clock_ - (1u << 30), 0, false};  // older than all others
  place_[entry] = nothing;
  if (filled_[w / ways] == ways_of_[w / ways]) oldest_[w / ways] = static_cast<std::uint8_t>(w % ways);
}

}  // namespace flashsim::l2

// The L2 cache, from a sample of its lines: two partitions, each with copies of the other's lines.
//
// A line has a home partition; an SM belongs to the side of one. An SM reads a line whose home is on its own
// side there. Else it looks for its side's own copy first; without one the request crosses the fabric to the
// home, and a copy is left on the way back. A miss at home reads DRAM. Writes go to the home. A write from
// the home's side ends a copy on the other; one from the other side leaves a copy there, with the new value.
// Reductions are done at home and end a copy. Writes allocate without fetching; a dirty line that has to
// make room is written to DRAM.
//
// A line's set is placement.h's. Sets have 16 ways and evict the line that was used longest ago; a hit in a
// copy is no use of the line at home. 47 of 48 parts of the cache have sets; where a sweep of the card finds
// that less of it holds a kernel's data, other things have taken a way of some sets.
//
// Any access to a set cleans (writes to DRAM, and keeps) up to two of its lines first: the dirty one that was
// used longest ago, where more than 7 are dirty; and the line that is the next to go, where the set is full
// and that line is dirty. If the access needs room, the next line to go then stays, and the clean one that
// was used longest ago goes instead.
//
// (Each of these rules was found on an H200 load by load: docs/measurements/h200_l2_sets.txt for which lines
// share a set, docs/measurements/h200_l2_policy.txt for what goes and what is cleaned. Streams that read,
// write, update and reduce buffers of 4 to 128 MiB agree: docs/measured_bytes.md.)
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/executors/l2/draws.h"
#include "simulator/executors/l2/placement.h"

namespace flashsim::l2 {

/// Where an access found its line; cold: in DRAM, and it was never here before.
enum class Found : std::uint8_t { near, far, dram, cold };
constexpr bool reads_dram(Found f) { return f >= Found::dram; }

class Cache {
 public:
  static constexpr int ways = 16;
  /// Dirty lines that a set may hold before the next access to it cleans one. A stream of writes leaves
  /// 29.4 MB dirty in an H200's L2 of 62.9 MB, however long it is: in two sets of three the last access was a
  /// write (7.67 of 16 lines); reading it again cleans down to 7.
  static constexpr int most_dirty = 7;
  /// Of an H200's L2 47 of 48 units hold lines, as of its memory: 141 of 144 GB.
  static constexpr double default_usable = 47.0 / 48;

  /// Of `bytes`, `usable` hold lines: what lacks to default_usable lacks as a way of some sets, drawn at
  /// random. `sample_bytes`: how many bytes of one home a sampled line stands for. A capacity of less than 16
  /// samples per partition is no cache at all: every access goes to DRAM.
  Cache(std::int64_t bytes, int partitions, std::int64_t sample_bytes, std::uint64_t seed,
        double usable = default_usable);

  /// Room for `lines` more lines, whose dirty evictions are counted under `owner`; the first one's number.
  /// Those of one `region` lie one after the other in memory; where a region begins is random.
  std::uint32_t add_lines(std::uint64_t lines, std::uint16_t owner, std::size_t region = 0);

  Found read(std::uint32_t line, int side, std::uint16_t owner) {
    const int home = home_of(line);
    if (home == side || partitions_ == 1) {
      return touch(2 * line) ? Found::near : insert(2 * line, home, owner, false);
    }
    if (touch(2 * line + 1)) return Found::near;
    ++fabric_lines_;
    const Found found = touch(2 * line) ? Found::far : insert(2 * line, home, owner, false);
    insert(2 * line + 1, side, owner, false);
    return found;
  }
  void write(std::uint32_t line, int side, std::uint16_t owner) {
    const int home = home_of(line);
    change_at_home(line, home, owner);
    if (partitions_ == 1) return;
    if (home == side) {
      drop(2 * line + 1);
    } else {
      ++fabric_lines_;
      if (!touch(2 * line + 1)) insert(2 * line + 1, side, owner, false);
    }
  }
  /// Adds to memory in L2. The sum needs the old value: a miss reads DRAM.
  Found reduce(std::uint32_t line, int side, std::uint16_t owner) {
    const int home = home_of(line);
    if (partitions_ > 1) {
      if (home != side) ++fabric_lines_;
      drop(2 * line + 1);
    }
    return change_at_home(line, home, owner);
  }

  /// Accesses that follow a read or a write of the same line from the same side, such as those of its other
  /// sectors: they find what that left there, but each cleans as any access does.
  void again(std::uint32_t line, int side, bool written, int times) {
    const bool far = partitions_ > 1 && home_of(line) != side;
    for (int k = 0; k < times; ++k) {
      if (!far || written) touch(2 * line);
      if (far) touch(2 * line + 1);
    }
  }

  /// Dirty lines of `owner` written to DRAM so far.
  std::int64_t cleaned(std::uint16_t owner) const { return owner < cleaned_.size() ? cleaned_[owner] : 0; }
  /// Dirty lines of `owner` that are still here.
  std::int64_t dirty(std::uint16_t owner) const { return owner < dirty_of_.size() ? dirty_of_[owner] : 0; }
  /// Lines that crossed from one partition to the other.
  std::int64_t fabric_lines() const { return fabric_lines_; }
  int sets_per_partition() const { return static_cast<int>(sets_); }

 private:
  static constexpr std::uint32_t nothing = 0xfffffffe, never = 0xffffffff;
  struct Way {
    std::uint32_t entry = nothing;  ///< 2 * line, + 1 for a copy
    std::uint32_t used = 0;
    std::uint16_t owner = 0;
    bool dirty = false;
  };

  int home_of(std::uint32_t line) const {
    if (partitions_ == 1) return 0;
    return static_cast<int>(((line >> 1) * 0x9e3779b9u >> 31) ^ (line & 1));  // each pair has one of each
  }
  bool touch(std::uint32_t entry) {
    const std::uint32_t w = place_[entry];
    if (w >= nothing) return false;
    clean_before_access(w / ways);
    way_[w].used = ++clock_;
    if (w % ways == oldest_[w / ways]) find_oldest(w / ways);
    return true;
  }
  Found change_at_home(std::uint32_t line, int home, std::uint16_t owner) {
    if (!touch(2 * line)) return insert(2 * line, home, owner, true);
    if (Way& way = way_[place_[2 * line]]; !way.dirty) {
      way.dirty = true;
      ++dirty_[place_[2 * line] / ways], ++dirty_of_[way.owner];
    }
    return Found::near;
  }
  Found insert(std::uint32_t entry, int partition, std::uint16_t owner, bool dirty);
  void drop(std::uint32_t entry);
  void find_oldest(std::uint32_t set);
  /// What any access to the set does first. Whether its next line to go was dirty: then that one stays.
  bool clean_before_access(std::uint32_t set) {
    if (dirty_[set] > most_dirty) clean(*oldest(set, [](const Way& w) { return w.dirty; }), set);
    if (oldest_[set] == ways) return false;  // the set is not full
    Way& next = way_[std::size_t{set} * ways + oldest_[set]];
    if (!next.dirty) return false;
    clean(next, set);
    return true;
  }
  /// Of the set's ways of that kind the one used longest ago; null where there is none.
  template <class Kind>
  Way* oldest(std::uint32_t set, const Kind& is_kind) {
    Way *const in_set = &way_[std::size_t{set} * ways], *found = nullptr;
    for (Way* w = in_set; w != in_set + ways_of_[set]; ++w)  // the clock wraps: compare the distance
      if (is_kind(*w) && (found == nullptr || static_cast<std::int32_t>(w->used - found->used) < 0))
        found = w;
    return found;
  }
  void clean(Way& way, std::uint32_t set);

  int partitions_;
  std::uint32_t sets_;  // per partition
  std::uint64_t seed_;
  std::uint32_t clock_ = 0;
  std::int64_t fabric_lines_ = 0;
  Placement placement_;
  std::vector<std::uint64_t> next_pair_;  // in memory, of every region
  std::vector<std::uint32_t> set_;        // of every pair of lines
  std::vector<Way> way_;                  // partition by partition, set by set
  std::vector<std::uint8_t> ways_of_;     // a set: those that nothing else has taken
  std::vector<std::uint8_t> filled_;      // ways of a set that ever held a line
  std::vector<std::uint8_t> oldest_;      // way of a full set that is the next to go; none: ways
  std::vector<std::uint8_t> dirty_;       // ways of a set that are dirty
  std::vector<std::uint32_t>
      place_;  // of every entry: index into way_; nothing: evicted; never: not yet seen
  std::vector<std::int64_t> cleaned_, dirty_of_;  // lines of every owner
};

}  // namespace flashsim::l2

// How a problem is cut into blocks of rows, and which of them the mask leaves.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu_reference/problem.h"

namespace flashsim {

/// A range of rows of a tensor: what the papers call Q_i or K_j.
struct Block {
  int index = 0;           ///< i or j
  int begin = 0;           ///< first row
  int rows = 0;            ///< how many; the last block of a ragged length has fewer
  std::int16_t group = 0;  ///< which of the query heads that share one K/V head (GQA)
  std::int16_t pack = 1;  ///< query heads interleaved in these rows: row r is query r / pack of head r % pack
  std::int16_t part = 0;  ///< which split or chunk of the keys, for O_part and the like

  constexpr int end() const { return begin + rows; }
  /// The queries that rows begin ... end() - 1 stand for (packed rows repeat a query `pack` times).
  constexpr int first_query() const { return begin / pack; }
  constexpr int last_query() const { return (end() - 1) / pack; }
};

/// Who works on which block of a launch. when_free: the next one goes to the first place that becomes free,
/// as the hardware starts thread blocks. Persistent thread blocks, one an SM, take block after block instead:
/// fixed: of N thread blocks, number i takes i, i + N, i + 2 N, ...; one_ahead: each draws its next block
/// from a counter as it begins one, so that the answer is there in time.
enum class Deal : std::uint8_t { when_free, fixed, one_ahead };

/// Blocks first ... last - 1 of n rows cut every `size`, once for each of `groups` query heads.
struct Blocks {
  int n = 0, size = 1, first = 0, last = 0;
  int groups = 1;  ///< query heads 0 ... groups - 1 of a K/V head, one after another
  int group = 0;   ///< added to that
  int pack = 1;
  bool backwards = false;
  int heads_together = 1;  ///< query heads of which a launch takes one block each in turn
  int late = 0;            ///< of every head's blocks the last so many, kept for the end of the launch
  Deal deal = Deal::when_free;

  constexpr int per_group() const { return std::max(0, last - first); }
  constexpr int count() const { return per_group() * groups; }
  constexpr bool empty() const { return count() == 0; }
  constexpr Block operator[](int k) const {
    const int g = groups == 1 ? 0 : k / per_group(), in_group = groups == 1 ? k : k % per_group();
    const int j = backwards ? last - 1 - in_group : first + in_group;
    return {j,
            j * size,
            std::min(size, n - j * size),
            static_cast<std::int16_t>(group + g),
            static_cast<std::int16_t>(pack),
            0};
  }
  struct iterator {
    const Blocks* of;
    int k;
    constexpr Block operator*() const { return (*of)[k]; }
    constexpr iterator& operator++() { return ++k, *this; }
    constexpr bool operator!=(const iterator& o) const { return k != o.k; }
  };
  constexpr iterator begin() const { return {this, 0}; }
  constexpr iterator end() const { return {this, count()}; }
};

/// All blocks of n rows, `size` rows each.
constexpr Blocks blocks(int n, int size) { return {n, size, 0, (n + size - 1) / size}; }

/// The T_r blocks of Q for every query head of a K/V head, in the order the tiling asks for.
inline Blocks row_blocks(const Problem& p, const Tiling& t) {
  Blocks b = blocks(p.seqlen_q, t.block_q);
  b.groups = p.group();
  b.backwards = t.order == BlockOrder::last_to_first;
  b.heads_together = t.heads_together;
  b.late = t.late_blocks < b.per_group() ? t.late_blocks : b.per_group();
  return b;
}
/// The same, dealt out to thread blocks that stay.
inline Blocks persistent(Blocks b, Deal deal) {
  b.deal = deal;
  return b;
}
/// The same in ascending order, for loops inside a thread block.
inline Blocks all_rows(const Problem& p, const Tiling& t) {
  Blocks b = row_blocks(p, t);
  b.backwards = false;
  b.heads_together = 1;
  b.late = 0;
  return b;
}
/// The T_c blocks of K and V.
inline Blocks col_blocks(const Problem& p, const Tiling& t) { return blocks(p.seqlen_k, t.block_k); }
/// All queries of all query heads of a K/V head, packed side by side: one thread block serves the whole
/// group.
inline Blocks packed_row_blocks(const Problem& p, const Tiling& t) {
  Blocks b = blocks(p.seqlen_q * p.group(), t.block_q);
  b.pack = p.group();
  return b;
}

/// The blocks of K that some query of block i sees. A mask's first and last visible key never decrease with
/// the query, so they are one range: the mask decides which tiles exist at all. They come in the tiling's key
/// order.
inline Blocks visible_cols(const Problem& p, const Tiling& t, Block i) {
  const int lo = p.first_key(i.first_query()), hi = p.end_key(i.last_query());
  Blocks b = col_blocks(p, t);
  b.first = lo < hi ? lo / t.block_k : 0;
  b.last = lo < hi ? (hi - 1) / t.block_k + 1 : 0;
  b.backwards = t.key_order == BlockOrder::last_to_first;
  return b;
}
/// The blocks of Q, of every query head of the group, that see some key of block j.
inline Blocks visible_rows(const Problem& p, const Tiling& t, Block j) {
  // Query q sees key k where q + shift - window_left <= k <= q + shift + right.
  const std::int64_t shift = p.shift(), right = p.causal ? 0 : p.window_right, n = p.seqlen_q;
  const std::int64_t lo = right < 0 ? 0 : std::clamp<std::int64_t>(j.begin - shift - right, 0, n);
  const std::int64_t hi =
      p.window_left < 0 ? n : std::clamp<std::int64_t>(j.end() - shift + p.window_left, 0, n);
  Blocks b = all_rows(p, t);
  b.first = lo < hi ? static_cast<int>(lo / t.block_q) : 0;
  b.last = lo < hi ? static_cast<int>((hi - 1) / t.block_q + 1) : 0;
  return b;
}
/// The keys cut into at most num_splits ranges of whole tiles.
inline Blocks key_splits(const Problem& p, const Tiling& t) {
  const int tiles = col_blocks(p, t).count();
  return blocks(p.seqlen_k, (tiles + t.num_splits - 1) / t.num_splits * t.block_k);
}
/// Some query of block i sees some key of block j.
inline bool is_visible(const Problem& p, const Tiling& t, Block i, Block j) {
  const Blocks v = visible_cols(p, t, i);
  return j.index >= v.first && j.index < v.last;
}
/// Block j is the last that row block i sees: FA1's last visit.
inline bool is_last_visit(const Problem& p, const Tiling& t, Block i, Block j) {
  return j.index == visible_cols(p, t, i).last - 1;
}
/// Every query of block i sees every key of block j, so the tile needs no mask.
inline bool sees_all(const Problem& p, Block i, Block j) {
  return j.begin >= p.first_key(i.last_query()) && j.end() <= p.end_key(i.first_query());
}
/// The columns that row block i reads when its visible tiles are taken together.
inline Block visible_range(const Problem& p, const Tiling& t, Block i) {
  Blocks v = visible_cols(p, t, i);
  v.backwards = false;
  if (v.empty()) return {};
  return {v.first, v[0].begin, v[v.count() - 1].end() - v[0].begin};
}

/// All but the one that comes first.
inline Blocks after_first(Blocks b) { return b.backwards ? --b.last : ++b.first, b; }
/// Those of b that begin in s, where s cuts at whole blocks.
inline Blocks within(Blocks b, Block s) {
  b.first = std::max(b.first, s.begin / b.size);
  b.last = std::min(b.last, (s.end() + b.size - 1) / b.size);
  return b;
}
/// The most rows of `rows` that fall to one of n warpgroups.
constexpr int rows_of_part(int rows, int n) { return (rows + n - 1) / n; }
/// The rows of block i that fall to the w-th of n warpgroups.
inline Block part_of(Block i, int w, int n) {
  const int rows = rows_of_part(i.rows, n), skip = std::min(w * rows, i.rows);
  i.begin += skip;
  i.rows = std::min(rows, i.rows - skip);
  return i;
}
/// The single rows of block i.
inline Blocks rows_in(Block i) {
  Blocks b{i.end(), 1, i.begin, i.end()};
  b.group = i.group;
  b.pack = i.pack;
  return b;
}
/// Where the scale of tile i stands in Q_scale or K_scale.
inline Block scale_of_tile(Block i) {
  i.begin = i.index;
  i.rows = 1;
  return i;
}
/// Block i in the s-th part of O_part, LSE_part, l_part or m_part.
inline Block in_part(Block i, int s) {
  i.part = static_cast<std::int16_t>(s);
  return i;
}

}  // namespace flashsim

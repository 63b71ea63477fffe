// Which sampled lines an operation touches.
//
// Every head of every tensor is cut into equal pieces of about `sample_bytes`, and one random byte of each
// piece stands for it: an operation touches the piece if it covers that byte. A piece thus counts as often as
// the bytes of the tensor are moved on average, and exactly where tiles are whole pieces. Tensors whose heads
// are smaller than a piece are sampled in every m-th head. All heads are cut alike, so that the accesses of a
// thread block, recorded for one head, hold for all.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "simulator/executors/l2/cache.h"
#include "simulator/machine/operation.h"

namespace flashsim::l2 {

enum class Access : std::uint16_t { read, write, reduce };

/// One access of a thread block to a piece of a tensor, in a head yet to be named.
struct Touch {
  std::uint32_t piece : 31;      ///< of its head
  std::uint32_t by_sectors : 1;  ///< the line is accessed a 32-byte sector at a time, see recording.h
  std::uint16_t group;           ///< which query head of the K/V head; 0 for K and V themselves
  std::uint16_t area : 14;
  std::uint16_t access : 2;
};

/// A tensor (of split tensors: one part) in memory.
struct Area {
  Tensor tensor = Tensor::count;  ///< count: not of the schedule's tensors
  std::uint32_t first_line = 0;
  std::uint32_t pieces = 0;  ///< per head
  int heads = 1;             ///< per batch entry
  int heads_per_kv = 1;      ///< query heads a K/V head serves; 1 for K and V themselves
  int every = 1;             ///< sampled in heads 0, every, 2 * every ...
  double bytes = 0;          ///< that one piece stands for
};

class AddressMap {
 public:
  /// `tensors_apart`: see L2Options.
  AddressMap(const Problem& p, const Tiling& t, std::int64_t sample_bytes, bool tensors_apart, Cache& cache)
      : p_(p), t_(t), sample_bytes_(sample_bytes), tensors_apart_(tensors_apart), cache_(cache) {}

  /// Appends what a load, store or reduction of op's rows (and columns) touches; gives its area.
  std::uint16_t touch(const Operation& op, Access access, std::vector<Touch>& out);
  /// Room for `bytes` that no schedule names, such as spilled registers.
  std::uint16_t add_area(std::int64_t bytes);

  const std::vector<Area>& areas() const { return areas_; }
  int element_bytes(std::uint16_t area) const { return shapes_[area].element_bytes; }

 private:
  struct Shape {
    double piece_bytes;
    std::int64_t row_bytes;
    int element_bytes;
  };
  std::uint16_t area_of(Tensor x, int part);
  /// Of memory (Cache::add_lines): what lies alone has one of its own.
  static constexpr std::size_t query_side = 0, key_side = 1, alone = 2;
  void touch_range(Touch touch, std::int64_t begin, std::int64_t end, std::vector<Touch>& out) const;
  void touch_columns(Touch touch, std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end,
                     std::vector<Touch>& out) const;
  double byte_of(std::uint16_t area, std::uint32_t piece) const;

  const Problem& p_;
  const Tiling& t_;
  std::int64_t sample_bytes_;
  bool tensors_apart_;
  Cache& cache_;
  std::vector<Area> areas_;
  std::vector<Shape> shapes_;
  std::map<std::pair<Tensor, int>, std::uint16_t> index_;
};

}  // namespace flashsim::l2

#include "simulator/executors/l2/address_map.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "simulator/executors/l2/requests.h"

namespace flashsim::l2 {
namespace {
constexpr std::size_t most_areas = 1 << 14;  // Touch::area has 14 bits
}

std::uint16_t AddressMap::area_of(Tensor x, int part) {
  const auto [place, is_new] = index_.try_emplace({x, part}, static_cast<std::uint16_t>(areas_.size()));
  if (!is_new) return place->second;
  if (areas_.size() >= most_areas)
    throw std::length_error(
        "the L2 model can tell 16,384 tensors and parts apart, the schedule uses more; cut "
        "the keys into fewer parts");
  Area a;
  a.tensor = x;
  a.heads = heads_of(x, p_);
  a.heads_per_kv = is_key_side(x) ? 1 : p_.group();
  const int element = bytes_in_hbm(x, p_);
  const std::int64_t row = row_bytes_in_memory(x, p_), head = rows_of(x, p_, t_) * row;
  const std::int64_t all_heads = std::int64_t{p_.batch} * a.heads;
  a.pieces =
      static_cast<std::uint32_t>(std::max<std::int64_t>(1, (head + sample_bytes_ / 2) / sample_bytes_));
  if (2 * head < sample_bytes_)
    a.every = static_cast<int>(std::min(all_heads, (sample_bytes_ + head / 2) / head));
  const std::int64_t sampled_heads = (all_heads + a.every - 1) / a.every;
  a.bytes = static_cast<double>(head) * static_cast<double>(all_heads) /
            (static_cast<double>(sampled_heads) * a.pieces);
  a.first_line = cache_.add_lines(static_cast<std::uint64_t>(sampled_heads) * a.pieces, place->second,
                                  tensors_apart_   ? alone + place->second
                                  : is_key_side(x) ? key_side
                                                   : query_side);
  areas_.push_back(a);
  shapes_.push_back({static_cast<double>(head) / a.pieces, row, element});
  return place->second;
}

std::uint16_t AddressMap::add_area(std::int64_t bytes) {
  if (areas_.size() >= most_areas) throw std::length_error("the L2 model can tell 16,384 areas apart");
  const auto index = static_cast<std::uint16_t>(areas_.size());
  Area a;
  a.pieces =
      static_cast<std::uint32_t>(std::max<std::int64_t>(1, (bytes + sample_bytes_ / 2) / sample_bytes_));
  a.bytes = static_cast<double>(bytes) / a.pieces;
  a.first_line = cache_.add_lines(a.pieces, index, alone + index);
  areas_.push_back(a);
  shapes_.push_back({a.bytes, bytes, 1});
  return index;
}

double AddressMap::byte_of(std::uint16_t area, std::uint32_t piece) const {
  const double within = static_cast<double>(scatter(std::uint64_t{area} << 32 | piece) >> 11) * 0x1p-53;
  return (piece + within) * shapes_[area].piece_bytes;
}

void AddressMap::touch_range(Touch touch, std::int64_t begin, std::int64_t end,
                             std::vector<Touch>& out) const {
  const double size = shapes_[touch.area].piece_bytes;
  const auto first = static_cast<std::uint32_t>(static_cast<double>(begin) / size);
  const auto last = std::min(static_cast<std::uint32_t>(static_cast<double>(end - 1) / size),
                             areas_[touch.area].pieces - 1);
  for (std::uint32_t k = first; k <= last; ++k) {
    // Pieces between the first and the last are covered whole.
    if (k == first || k == last) {
      const double byte = byte_of(touch.area, k);
      if (byte < static_cast<double>(begin) || byte >= static_cast<double>(end)) continue;
    }
    touch.piece = k;
    out.push_back(touch);
  }
}

void AddressMap::touch_columns(Touch touch, std::int64_t row, std::int64_t rows, std::int64_t begin,
                               std::int64_t end, std::vector<Touch>& out) const {
  const Shape& s = shapes_[touch.area];
  if (static_cast<double>(s.row_bytes) >= s.piece_bytes) {
    for (std::int64_t r = row; r < row + rows; ++r)
      touch_range(touch, r * s.row_bytes + begin, r * s.row_bytes + end, out);
    return;
  }
  const auto first = static_cast<std::uint32_t>(static_cast<double>(row * s.row_bytes) / s.piece_bytes);
  for (std::uint32_t k = first; k < areas_[touch.area].pieces; ++k) {
    const auto byte = static_cast<std::int64_t>(byte_of(touch.area, k));
    const std::int64_t r = byte / s.row_bytes, in_row = byte % s.row_bytes;
    if (r >= row + rows) break;
    if (r < row || in_row < begin || in_row >= end) continue;
    touch.piece = k;
    out.push_back(touch);
  }
}

std::uint16_t AddressMap::touch(const Operation& op, Access access, std::vector<Touch>& out) {
  const Block rows = op.rows;
  const std::uint16_t area = area_of(op.tensor, rows.part);
  const Shape& s = shapes_[area];
  Touch touch{0, 0, 0, area, static_cast<std::uint16_t>(access)};
  const std::int64_t begin = std::int64_t{op.cols.begin} * s.element_bytes,
                     end = op.cols.rows > 0 && op.cols.end() < cols_of(op.tensor, p_)
                               ? std::int64_t{op.cols.end()} * s.element_bytes
                               : s.row_bytes;  // what pads the last column belongs to it
  // Packed rows are queries of several heads side by side: row r is query r / pack of head r % pack.
  for (int g = 0; g < rows.pack; ++g) {
    touch.group = static_cast<std::uint16_t>(rows.pack > 1 ? g : rows.group);
    const int first = (rows.begin - g + rows.pack - 1) / rows.pack,
              last = (rows.end() - g + rows.pack - 1) / rows.pack;
    if (first >= last) continue;
    if (end - begin == s.row_bytes)
      touch_range(touch, first * s.row_bytes, last * s.row_bytes, out);
    else
      touch_columns(touch, first, last - first, begin, end, out);
  }
  return area;
}

}  // namespace flashsim::l2

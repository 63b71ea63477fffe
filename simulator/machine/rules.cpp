#include "simulator/machine/rules.h"

#include <string>

namespace flashsim {
namespace {

std::string shape_of(const TileRef* t) {
  return t == nullptr ? "none"
                      : std::string(name_of(t->tensor)) + " (" + std::to_string(t->rows) + ", " +
                            std::to_string(t->cols) + ")";
}

[[noreturn]] void refuse(const Operation& o, const std::string& expected) {
  throw ScheduleError(std::string(name_of(o.kind)) + ": " + expected + "; given result " + shape_of(o.out) +
                      ", operands " + shape_of(o.a) + " and " + shape_of(o.b));
}

bool same(const TileRef* a, const TileRef* b) {
  return a != nullptr && b != nullptr && a->rows == b->rows && a->cols == b->cols;
}
bool column_for(const TileRef* column, const TileRef* rows) {
  return column != nullptr && rows != nullptr && column->cols == 1 && column->rows == rows->rows;
}
bool number(const TileRef* t) { return t != nullptr && t->rows == 1 && t->cols == 1; }

void require_in_memory(const Operation& o, const Problem& p) {
  const TileRef* tile = o.kind == Op::load || o.kind == Op::take ? o.out : o.a;
  if (tile == nullptr || o.tensor == Tensor::count) refuse(o, "a tile and a tensor in memory are needed");
  const int columns = cols_of(o.tensor, p), cols = o.cols.rows > 0 ? o.cols.rows : columns;
  if (tile->rows != o.rows.rows || tile->cols != cols)
    refuse(o, "the tile must have the block's shape (" + std::to_string(o.rows.rows) + ", " +
                  std::to_string(cols) + ")");
  const int pack = o.rows.pack;
  if (pack != 1 && pack != p.group()) refuse(o, "rows are packed by 1 or by the group's query heads");
  if (o.rows.group < 0 || o.rows.group >= p.group()) refuse(o, "the query head is not in the group");
  if (o.rows.part < 0) refuse(o, "parts count from 0");
  const int rows =
      is_scale(o.tensor) ? o.rows.end() : rows_of(o.tensor, p, {}) * (is_key_side(o.tensor) ? 1 : pack);
  if (o.rows.begin < 0 || o.rows.rows < 0 || o.rows.begin > rows - o.rows.rows)
    refuse(o, "rows " + std::to_string(o.rows.begin) + " ... " + std::to_string(o.rows.end() - 1) + " of " +
                  std::string(name_of(o.tensor)) + " do not exist, it has " + std::to_string(rows));
  if (o.cols.begin < 0 || o.cols.begin > columns - cols)
    refuse(o, "columns " + std::to_string(o.cols.begin) + " ... " + std::to_string(o.cols.end() - 1) +
                  " of " + std::string(name_of(o.tensor)) + " do not exist, it has " +
                  std::to_string(columns));
}

void require_in_scores(const Operation& o) {
  if (o.out == nullptr || o.out->rows != o.rows.rows || o.out->cols != o.cols.rows)
    refuse(o, "the tile must have the shape (rows of i, rows of j) = (" + std::to_string(o.rows.rows) + ", " +
                  std::to_string(o.cols.rows) + ")");
}

}  // namespace

void require_sensible(const Operation& o, const Problem& p) {
  const TileRef *out = o.out, *a = o.a, *b = o.b;
  switch (o.kind) {
    case Op::load:
    case Op::take:
    case Op::store:
    case Op::reduce_add:
    case Op::reduce_max: return require_in_memory(o, p);
    case Op::mask:
    case Op::dropout: return require_in_scores(o);
    case Op::matmul_nt:
      if (out == nullptr || a == nullptr || b == nullptr || a->cols != b->cols || out->rows != a->rows ||
          out->cols != b->rows)
        refuse(o, "a b^T needs a (m, k) and b (n, k)");
      return;
    case Op::add_matmul:
      if (out == nullptr || a == nullptr || b == nullptr || a->cols != b->rows || out->rows != a->rows ||
          out->cols != b->cols)
        refuse(o, "c += a b needs c (m, n), a (m, k) and b (k, n)");
      return;
    case Op::add_matmul_tn:
      if (out == nullptr || a == nullptr || b == nullptr || a->rows != b->rows || out->rows != a->cols ||
          out->cols != b->cols)
        refuse(o, "c += a^T b needs c (m, n), a (k, m) and b (k, n)");
      return;
    case Op::exp:
    case Op::scale_rows:
    case Op::divide_rows:
      if (!column_for(a, out)) refuse(o, "a column with one entry for every row of the tile is needed");
      return;
    case Op::add_row_sum:
      if (!column_for(out, a)) refuse(o, "l must be a column with one entry for every row of the tile");
      return;
    case Op::row_max:
    case Op::row_sum:
      if (!column_for(out, a)) refuse(o, "a tile is needed");
      return;
    case Op::row_dot:
      if (!same(a, b) || !column_for(out, a)) refuse(o, "two tiles of the same shape are needed");
      return;
    case Op::exp_difference:
    case Op::max:
      if (!same(a, b) || !column_for(out, a) || a->cols != 1)
        refuse(o, "two columns of equal length are needed");
      return;
    case Op::log_sum:
      if (!same(out, a) || out->cols != 1) refuse(o, "m and l must be columns of equal length");
      return;
    case Op::softmax_gradient:
      if (!same(out, a) || !column_for(b, out))
        refuse(o, "dP and P of the same shape and a column D are needed");
      return;
    case Op::add:
    case Op::copy:
      if (!same(out, a)) refuse(o, "two tiles of the same shape are needed");
      return;
    case Op::multiply:
      if (out == nullptr || (a != nullptr && !same(out, a)))
        refuse(o, "two tiles of the same shape are needed");
      return;
    case Op::abs_max:
      if (!number(out) || a == nullptr || a->size() == 0) refuse(o, "a tile with elements is needed");
      return;
    case Op::quantise:
    case Op::scale_all:
      if (out == nullptr || !number(a)) refuse(o, "the second tile must be a single number");
      return;
    case Op::rotate:
      if (out == nullptr || out->cols < 1 || (out->cols & (out->cols - 1)) != 0)
        refuse(o, "a Hadamard matrix needs a power of two of columns");
      return;
    case Op::fill:
    case Op::convert:
    case Op::wait:
      if (out == nullptr) refuse(o, "a tile is needed");
      return;
    case Op::count: break;
  }
  throw ScheduleError("no such operation");
}

}  // namespace flashsim

#include "simulator/executors/row_statistics.h"

namespace flashsim {
namespace {

template <class Real>
void append(RowValues& to, const Numeric<Real>& numeric, const TileRef& t) {
  const auto& column = numeric.tile(t);
  for (Eigen::Index r = 0; r < column.rows(); ++r) to.values.push_back(static_cast<float>(column(r, 0)));
}

template <class Real>
void replace(RowValues& with, const Numeric<Real>& numeric, const TileRef& t) {
  with.values.clear();
  append(with, numeric, t);
}

RowValues& of(RowStatistics& rows, RowQuantity q) { return rows[static_cast<int>(q)]; }

}  // namespace

template <class Real>
void keep_rows_before(const Operation& o, const Numeric<Real>& numeric, Pseudocode& names,
                      RowStatistics& rows) {
  const bool changes = o.kind == Op::scale_rows || o.kind == Op::add_row_sum || o.kind == Op::add;
  RowValues& before = of(rows, RowQuantity::l_before);
  if (changes && names.name_of(*o.out) == "l_i" && before.values.empty()) append(before, numeric, *o.out);
}

template <class Real>
void keep_rows_after(const Operation& o, const Numeric<Real>& numeric, Pseudocode& names,
                     RowStatistics& rows) {
  using enum RowQuantity;
  switch (o.kind) {
    case Op::max:
      if (names.name_of(*o.a) == "m_i") replace(of(rows, m_before), numeric, *o.a);
      replace(of(rows, m), numeric, *o.out);
      break;
    case Op::row_max:  // standard softmax: row after row; elsewhere a maximum with earlier ones follows
      append(of(rows, m), numeric, *o.out);
      break;
    case Op::row_sum: append(of(rows, l), numeric, *o.out); break;
    case Op::exp_difference:
      if (names.name_of(*o.out) == "correction") replace(of(rows, correction), numeric, *o.out);
      break;
    case Op::add_row_sum:
    case Op::add:
      if (names.name_of(*o.out) == "l_i") replace(of(rows, l), numeric, *o.out);
      break;
    case Op::log_sum: replace(of(rows, lse), numeric, *o.out); break;
    case Op::row_dot: append(of(rows, d), numeric, *o.out); break;
    case Op::load:
      if (o.tensor == Tensor::LSE) replace(of(rows, lse), numeric, *o.out);
      if (o.tensor == Tensor::D) replace(of(rows, d), numeric, *o.out);
      break;
    default: break;
  }
}

template void keep_rows_before(const Operation&, const Numeric<float>&, Pseudocode&, RowStatistics&);
template void keep_rows_before(const Operation&, const Numeric<double>&, Pseudocode&, RowStatistics&);
template void keep_rows_after(const Operation&, const Numeric<float>&, Pseudocode&, RowStatistics&);
template void keep_rows_after(const Operation&, const Numeric<double>&, Pseudocode&, RowStatistics&);

}  // namespace flashsim

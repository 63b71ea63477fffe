// Which operations tell the row statistics of a step: m, l and the correction, before and after.
#pragma once

#include <array>

#include "simulator/executors/numeric.h"
#include "simulator/executors/pseudocode.h"
#include "simulator/executors/recording.h"

namespace flashsim {

using RowStatistics = std::array<RowValues, static_cast<int>(RowQuantity::count)>;

/// Called before `o` is executed: the running sum, before the step changes it.
template <class Real>
void keep_rows_before(const Operation& o, const Numeric<Real>& numeric, Pseudocode& names,
                      RowStatistics& rows);

/// Called after `o` was executed, and named by `names`.
template <class Real>
void keep_rows_after(const Operation& o, const Numeric<Real>& numeric, Pseudocode& names,
                     RowStatistics& rows);

}  // namespace flashsim

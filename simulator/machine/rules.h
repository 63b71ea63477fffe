// Which operations make sense: the shapes they need, and where in memory they may reach.
#pragma once

#include "simulator/machine/operation.h"

namespace flashsim {

/// Throws ScheduleError, saying what was given and what was expected, unless the operation's tiles fit each
/// other and its rows and columns lie in the tensor (scales excepted, whose length the tiling decides: memory
/// checks those). Machine asks for every operation it issues, and whoever takes operations from another
/// process asks again.
void require_sensible(const Operation& o, const Problem& p);

}  // namespace flashsim

// Formulas from well-known explanations of FlashAttention that are wrong, as schedules to execute.
#pragma once

#include "simulator/schedules/schedules.h"

namespace flashsim::course {

/// O_i = diag(exp(m - m_new))^-1 O_i + ...: the correction factor is inverted.
void inverted_correction(Device& gpu, const Problem& p, const Tiling& t);

/// FA1's loop, which divides O by l on every visit, without undoing the division of the visit before.
void divided_every_visit(Device& gpu, const Problem& p, const Tiling& t);

/// exp(-m_new) sum exp(x) V instead of sum exp(x - m_new) V: equal on paper, overflows in the machine.
void maximum_outside(Device& gpu, const Problem& p, const Tiling& t);

}  // namespace flashsim::course

// What every exercise that is a schedule includes: the Machine interface and its names.
#pragma once

#include "simulator/machine/device.h"

using namespace flashsim;
using enum flashsim::Tensor;

/// What the exercise defines: the kernels of one algorithm. flashsim calls it with problems and tilings of
/// many shapes; it issues operations, which flashsim executes and counts.
void schedule(Device& gpu, const Problem& p, const Tiling& t);

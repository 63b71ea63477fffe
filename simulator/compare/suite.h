// The committed list of cases that simulated and measured bytes are compared on.
#pragma once

#include <vector>

#include "simulator/compare/record.h"

namespace flashsim {

/// bytes-v1: every own kernel, forward and backward, on problems drawn from a fixed seed: lengths from 128 to
/// 131,072 (also such that no block divides), d = 64, 128, 256, batch x heads from 1 to 1,024, causal and
/// not, grouped heads; standard up to 100 GiB of traffic; softmax alone in both variants on S of up to 17 GB.
/// What is in the list stays there, in its place; a list drawn otherwise gets a new name.
std::vector<KernelCase> bytes_suite_v1();

}  // namespace flashsim

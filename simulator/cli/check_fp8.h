// flashsim check --fp8-table: how exact FlashAttention-3 in e4m3 is, beside the table of its paper.
#pragma once

#include <cstdint>

#include "simulator/cli/errors.h"
#include "simulator/cli/output.h"

namespace flashsim::cli {

/// Prints the root mean square error of O on the paper's inputs with outliers: of the numeric executor and,
/// where a GPU can run it, of the CUDA kernel. check_failed where the order or the factors of the paper's
/// table do not come out.
ExitCode check_fp8_table(std::uint64_t seed, Output& out);

}  // namespace flashsim::cli

// What this program was built from and with.
#pragma once

#include <string>

namespace flashsim::cli {

/// The commit this program was configured from; "unknown" outside a repository.
std::string commit();
/// Name and version, as CMake gives them: "GNU 12.2.0".
std::string cxx_compiler();
/// "nvcc 12.8.61"; empty where flashsim was built without CUDA.
std::string cuda_compiler();

}  // namespace flashsim::cli

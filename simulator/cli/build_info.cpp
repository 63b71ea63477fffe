#include "simulator/cli/build_info.h"

namespace flashsim::cli {

std::string commit() { return FLASHSIM_COMMIT; }
std::string cxx_compiler() { return FLASHSIM_CXX_COMPILER; }
std::string cuda_compiler() { return FLASHSIM_CUDA_COMPILER; }

}  // namespace flashsim::cli

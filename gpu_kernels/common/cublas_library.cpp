#include "gpu_kernels/common/cublas_library.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "gpu_kernels/kernels.h"

namespace flashsim::gpu {

CublasLibrary open_cublas(const std::string& name, const std::string& folder) {
  void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) library = dlopen((folder + "/" + name).c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw LibraryMissing("matrix products by cuBLAS need " + name + ", which cannot be opened (" +
                         (reason != nullptr ? reason : "no reason given") + "); install cuBLAS of CUDA " +
                         std::to_string(CUBLAS_VER_MAJOR) +
                         " or put its folder into LD_LIBRARY_PATH; the other kernels do without");
  }
  const auto find = [&](const char* symbol, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr)
      throw LibraryMissing("the " + name + " that was found lacks " + symbol +
                           "; install cuBLAS of the CUDA Toolkit that this was compiled with");
  };
  CublasLibrary functions;
  find("cublasCreate_v2", functions.create);
  find("cublasDestroy_v2", functions.destroy);
  find("cublasSetStream_v2", functions.set_stream);
  find("cublasGetStatusString", functions.status_string);
  find("cublasGemmStridedBatchedEx", functions.gemm_strided_batched);
  return functions;
}

const CublasLibrary& cublas_library() {
  static const CublasLibrary functions =
      open_cublas("libcublas.so." + std::to_string(CUBLAS_VER_MAJOR), FLASHSIM_CUBLAS_FOLDER);
  return functions;
}

void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw CudaError(std::string(call) + " failed: " + cublas_library().status_string(status));
}

CublasHandle create_cublas_handle() {
  cublasHandle_t created = nullptr;
  check_cublas(cublas_library().create(&created), "cublasCreate");
  return CublasHandle(created);
}

std::string why_no_cublas() {
  try {
    cublas_library();
    return {};
  } catch (const LibraryMissing& error) {
    return error.what();
  }
}

}  // namespace flashsim::gpu

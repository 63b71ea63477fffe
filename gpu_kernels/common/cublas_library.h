// cuBLAS without linking to it: the library is several hundred megabytes, which every start of a program
// would map. It is opened when the first product is asked for.
#pragma once

#include <cublas_v2.h>

#include <memory>
#include <string>
#include <type_traits>

namespace flashsim::gpu {

/// The functions of cuBLAS that are used (cuBLAS manual, ch. 2), under the names that the library exports.
struct CublasLibrary {
  decltype(&::cublasCreate_v2) create;
  decltype(&::cublasDestroy_v2) destroy;
  decltype(&::cublasSetStream_v2) set_stream;
  decltype(&::cublasGetStatusString) status_string;
  /// cublasGemmStridedBatchedEx; spelled out, because cuBLAS's header overloads the name.
  cublasStatus_t (*gemm_strided_batched)(cublasHandle_t, cublasOperation_t op_a, cublasOperation_t op_b,
                                         int m, int n, int k, const void* alpha, const void* a,
                                         cudaDataType a_type, int lda, long long stride_a, const void* b,
                                         cudaDataType b_type, int ldb, long long stride_b, const void* beta,
                                         void* c, cudaDataType c_type, int ldc, long long stride_c, int batch,
                                         cublasComputeType_t, cublasGemmAlgo_t);
};

/// Opens the library `name`, from LD_LIBRARY_PATH and the system's folders, else from `folder`. Throws
/// LibraryMissing.
CublasLibrary open_cublas(const std::string& name, const std::string& folder);

/// libcublas.so of the major version that this was compiled with, else from the CUDA Toolkit's folder; opened
/// once. Throws LibraryMissing.
const CublasLibrary& cublas_library();

/// Throws CudaError, naming the call, unless `status` is success.
void check_cublas(cublasStatus_t status, const char* call);

/// Destroys the handle with the object.
struct DestroyCublas {
  void operator()(cublasHandle_t handle) const { cublas_library().destroy(handle); }
};
using CublasHandle = std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, DestroyCublas>;

/// A handle for the current device and its default stream. Throws LibraryMissing, CudaError.
CublasHandle create_cublas_handle();

}  // namespace flashsim::gpu

// cuBLAS is opened when first used, and what happens where it is not there. No GPU is needed.
#include "gpu_kernels/common/cublas_library.h"

#include <doctest/doctest.h>

#include "gpu_kernels/kernels.h"

using namespace flashsim::gpu;

TEST_CASE("a library that is missing is an error that says which, and what to do") {
  try {
    open_cublas("libcublas.so.0", "/no/such/folder");
    FAIL("opened");
  } catch (const LibraryMissing& error) {
    const std::string message = error.what();
    CHECK(message.find("matrix products by cuBLAS need libcublas.so.0") == 0);
    CHECK(message.find("/no/such/folder/libcublas.so.0") != std::string::npos);
    CHECK(message.find("install cuBLAS") != std::string::npos);
  }
}

TEST_CASE("a library that is something else is an error that names what it lacks") {
  try {
    open_cublas("libm.so.6", "");
    FAIL("opened");
  } catch (const LibraryMissing& error) {
    CHECK(std::string(error.what()).find("libm.so.6 that was found lacks cublasCreate_v2") !=
          std::string::npos);
  }
}

TEST_CASE("the library that this was compiled with is found, and answers") {
  CHECK(why_no_cublas().empty());
  const CublasLibrary& library = cublas_library();
  CHECK(std::string(library.status_string(CUBLAS_STATUS_SUCCESS)) !=
        library.status_string(CUBLAS_STATUS_NOT_SUPPORTED));
  CHECK(&cublas_library() == &cublas_library());
}

// Standard attention on cuBLAS: the timing baseline beside our own products, for comparison only.
//
// The same eight steps as standard.cu, with the five kinds of product done by cublasGemmStridedBatchedEx
// (fp16 or bf16 inputs, sums in fp32) over whole matrices. cuBLAS knows no mask: hidden scores are computed,
// written and then ignored by the softmax, which writes P = 0 there. Its bytes are its own choice; at least 4
// W + 4 u forward and 7 W + 8 u backward per head (W = e n^2, u = e n d). An Inf or NaN among keys that a row
// does not see spoils that row, because 0 times Inf is added; standard, fa1 and fa2 do not have this flaw.
#include <memory>

#include "gpu_kernels/common/cublas_library.h"
#include "gpu_kernels/common/dispatch.h"
#include "gpu_kernels/standard/standard.h"

namespace flashsim::gpu::standard {
namespace {

cublasHandle_t handle_on(void* stream) {
  thread_local CublasHandle handle;
  if (handle == nullptr) handle = create_cublas_handle();
  check_cublas(cublas_library().set_stream(handle.get(), static_cast<cudaStream_t>(stream)),
               "cublasSetStream");
  return handle.get();
}

/// A row-major matrix of every head: `rows` x `cols`, as stored, rows `pitch` elements apart.
struct Matrix {
  const void* data;
  int rows, cols, pitch;
  Matrix(const void* data, int rows, int cols) : Matrix(data, rows, cols, cols) {}
  Matrix(const void* data, int rows, int cols, int pitch)
      : data(data), rows(rows), cols(cols), pitch(pitch) {}
};

/// C = scale op(A) op(B) for every head, all row-major; op transposes where asked.
class Products {
 public:
  Products(const Problem& p, void* stream)
      : handle_(handle_on(stream)),
        type_(p.dtype == Dtype::fp16 ? CUDA_R_16F : CUDA_R_16BF),
        heads_(p.batch * p.heads_q) {}

  void operator()(const char* name, Matrix c, Matrix a, bool transpose_a, Matrix b, bool transpose_b,
                  float scale) const {
    // cuBLAS is column-major: it sees every matrix transposed, so C^T = op(B)^T op(A)^T is asked for.
    const float zero = 0;
    const int inner = transpose_a ? a.rows : a.cols;
    const auto stride = [](Matrix m) { return static_cast<long long>(m.rows) * m.pitch; };
    check_cublas(cublas_library().gemm_strided_batched(
                     handle_, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                     transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, c.cols, c.rows, inner, &scale, b.data, type_,
                     b.pitch, stride(b), a.data, type_, a.pitch, stride(a), &zero, const_cast<void*>(c.data),
                     type_, c.pitch, stride(c), heads_, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                 name);
  }

 private:
  cublasHandle_t handle_;
  cudaDataType_t type_;
  int heads_;
};

std::string fault(const Problem& p, const Tiling& t, Pass pass) {
  std::string found = fault_of_standard(p, t, pass);
  if (found.empty() && p.heads_q != p.heads_kv)
    found = "heads_q is " + std::to_string(p.heads_q) + " and heads_kv " + std::to_string(p.heads_kv) +
            "; the cuBLAS baseline takes equal numbers only (use standard)";
  return found;
}

void run(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream) {
  const char* const name = "standard-cublas";
  refuse_faults(name, fault(p, t, pass));
  need(x.q, name, "q"), need(x.k, name, "k"), need(x.v, name, "v"), need(x.p, name, "p");
  const Shape shape = shape_of(p);
  const int pitch = static_cast<int>(score_pitch(p));
  const Products product(p, stream);
  const Matrix q{x.q, p.seqlen_q, p.head_dim}, k{x.k, p.seqlen_k, p.head_dim}, v{x.v, p.seqlen_k, p.head_dim};
  const Matrix probabilities{x.p, p.seqlen_q, p.seqlen_k, pitch};
  if (pass == Pass::forward) {
    need(x.s, name, "s"), need(x.o, name, "o");
    const Matrix s{x.s, p.seqlen_q, p.seqlen_k, pitch}, o{x.o, p.seqlen_q, p.head_dim};
    product("S = Q K^T", s, q, false, k, true, shape.scale);
    softmax_rows(p, Extent::whole_rows, x.s, x.p, stream);
    product("O = P V", o, probabilities, false, v, false, 1);
  } else {
    need(x.d_o, name, "d_o"), need(x.workspace, name, "workspace");
    need(x.dq, name, "dq"), need(x.dk, name, "dk"), need(x.dv, name, "dv");
    const Matrix d_o{x.d_o, p.seqlen_q, p.head_dim}, dp{x.workspace, p.seqlen_q, p.seqlen_k, pitch};
    void* const ds_data = static_cast<char*>(x.workspace) + 2 * ds_offset(p);
    const Matrix ds{ds_data, p.seqlen_q, p.seqlen_k, pitch};
    product("dV = P^T dO", {x.dv, p.seqlen_k, p.head_dim}, probabilities, true, d_o, false, 1);
    product("dP = dO V^T", dp, d_o, false, v, true, 1);
    softmax_gradient_rows(p, Extent::whole_rows, x.p, x.workspace, ds_data, stream);
    product("dQ = dS K", {x.dq, p.seqlen_q, p.head_dim}, ds, false, k, false, shape.scale);
    product("dK = dS^T Q", {x.dk, p.seqlen_k, p.head_dim}, ds, true, q, false, shape.scale);
  }
}

}  // namespace

Kernel cublas_products() {
  return {"standard-cublas",
          "",
          "the same steps with cuBLAS products: the timing baseline",
          fault,
          tiling_of_standard,
          workspace_of_standard,
          run};
}

}  // namespace flashsim::gpu::standard

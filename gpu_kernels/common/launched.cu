#include "gpu_kernels/common/launched.h"

#include <cuda_runtime.h>

#include <memory>

#include "gpu_kernels/common/check.h"

namespace flashsim::gpu {
namespace {

struct DestroyStream {
  void operator()(cudaStream_t s) const { cudaStreamDestroy(s); }
};
struct DestroyGraph {
  void operator()(cudaGraph_t g) const { cudaGraphDestroy(g); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

std::string name_of_node(cudaGraphNode_t node) {
  cudaKernelNodeParams parameters;
  const char* name = nullptr;
  if (cudaGraphKernelNodeGetParams(node, &parameters) != cudaSuccess ||
      cudaFuncGetName(&name, parameters.func) != cudaSuccess) {
    cudaGetLastError();  // the function belongs to a library's own module
    return "(library)";
  }
  return name;
}

}  // namespace

std::vector<std::string> launched_functions(const Kernel& kernel, const Problem& p, const Tiling& t,
                                            Pass pass, const Tensors& x) {
  cudaStream_t created = nullptr;
  FLASHSIM_CUDA_CHECK(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking));
  const Stream stream(created);
  FLASHSIM_CUDA_CHECK(cudaStreamBeginCapture(created, cudaStreamCaptureModeRelaxed));
  cudaGraph_t captured = nullptr;
  try {
    kernel.launch(p, t, pass, x, created);
  } catch (...) {
    cudaStreamEndCapture(created, &captured);
    const Graph discarded(captured);
    throw;
  }
  FLASHSIM_CUDA_CHECK(cudaStreamEndCapture(created, &captured));
  const Graph graph(captured);
  std::size_t count = 0;
  FLASHSIM_CUDA_CHECK(cudaGraphGetNodes(captured, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  FLASHSIM_CUDA_CHECK(cudaGraphGetNodes(captured, nodes.data(), &count));
  std::vector<std::string> names;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    FLASHSIM_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeKernel) names.push_back(name_of_node(node));
  }
  return names;
}

}  // namespace flashsim::gpu

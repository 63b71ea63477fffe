// The streaming and latency kernels of a build without CUDA: they say so.
#include "gpu_kernels/kernels.h"
#include "gpu_kernels/measure/sides.h"
#include "gpu_kernels/measure/streams.h"

namespace flashsim::gpu {
namespace {
[[noreturn]] void refuse() { throw CudaError(why_no_gpu()); }
}  // namespace

void read_stream(const void*, std::size_t, void*) { refuse(); }
void copy_stream(const void*, void*, std::size_t) { refuse(); }
void reduce_stream(void*, std::size_t) { refuse(); }
void reread_stream(const void*, std::size_t, int, void*) { refuse(); }
void bulk_copy_stream(const void*, void*, std::size_t) { refuse(); }
void bulk_reduce_stream(void*, std::size_t) { refuse(); }
void fill_normal(void*, std::size_t, Dtype, std::uint64_t) { refuse(); }
std::vector<SmLatencies> measure_sm_latencies(int) { refuse(); }
std::vector<int> sms_of_launch(int) { refuse(); }

}  // namespace flashsim::gpu

#include "gpu_kernels/check/forward_run.h"

#include "gpu_kernels/check/inputs.h"

namespace flashsim::gpu {

std::vector<double> forward_on_gpu(const Kernel& kernel, const Problem& p, const Tiling& t,
                                   const std::vector<double>& q, const std::vector<double>& k,
                                   const std::vector<double>& v) {
  const Dtype dtype = p.dtype == Dtype::e4m3 ? Dtype::fp16 : p.dtype;
  const auto on_device = [dtype](const std::vector<double>& x) {
    const std::vector<unsigned char> bytes = encode(dtype, x);
    DeviceBuffer buffer(bytes.size());
    buffer.copy_from_host(bytes.data(), bytes.size());
    return buffer;
  };
  const DeviceBuffer dq = on_device(q), dk = on_device(k), dv = on_device(v);
  const auto rows = static_cast<std::size_t>(p.batch) * static_cast<std::size_t>(p.heads_q) *
                    static_cast<std::size_t>(p.seqlen_q);
  DeviceBuffer o(dq.bytes()), lse(rows * sizeof(float)),
      workspace(kernel.workspace_bytes(p, t, Pass::forward));
  for (DeviceBuffer* buffer : {&o, &lse, &workspace}) buffer->fill_bytes(0xff);  // NaN
  Tensors x;
  x.q = dq.data(), x.k = dk.data(), x.v = dv.data(), x.o = o.data();
  x.lse = static_cast<float*>(lse.data()), x.workspace = workspace.data();
  kernel.launch(p, t, Pass::forward, x, nullptr);
  synchronize();
  std::vector<unsigned char> bytes(o.bytes());
  o.copy_to_host(bytes.data(), bytes.size());
  return decode(dtype, bytes, q.size());
}

}  // namespace flashsim::gpu

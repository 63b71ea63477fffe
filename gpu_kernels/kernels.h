// The CUDA kernels as callers see them: plain C++17, no CUDA type. Builds and links without CUDA (the
// registry is then empty), so that everything else needs no GPU and no toolkit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu_reference/problem.h"

namespace flashsim::gpu {

enum class Pass : std::uint8_t { forward, backward };

/// A CUDA or driver call failed; the message names the call, the error and where.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A CUDA library that only some kernels need (cuBLAS) cannot be opened; the message says which, and what to
/// do.
class LibraryMissing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A kernel was asked for something it does not compute; the message is the reason.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Device pointers, each tensor contiguous as Problem says (16-byte aligned). Unused ones may be null. Where
/// Problem says e4m3, Q, K, V and O are fp16: the kernel quantises what it reads.
struct Tensors {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;  ///< (batch, heads_q, seqlen_q); natural log; -inf where a row sees nothing
  float *l = nullptr, *m = nullptr;  ///< FA1's row statistics, each (batch, heads_q, seqlen_q)
  void *s = nullptr, *p = nullptr;   ///< standard, softmax: score_elements of cpu_reference/score_layout.h
  const void* d_o = nullptr;         ///< gradient of O
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  const float *q_scale = nullptr, *k_scale = nullptr,
              *v_scale = nullptr;  ///< not used yet: fa3 makes its own
  void* workspace = nullptr;       ///< Kernel::workspace_bytes bytes, contents undefined
};

/// One entry of the registry.
struct Kernel {
  std::string name;     ///< "fa2"; what --kernel takes
  std::string variant;  ///< "" or e.g. "no-pingpong"
  std::string idea;     ///< one line for a listing
  /// Empty where this kernel computes `p` with `t` in `pass`, else the reason why not.
  std::string (*fault)(const Problem& p, const Tiling& t, Pass pass);
  /// The tiling this kernel uses for `p` unless told otherwise; what the simulator must be given to compare.
  Tiling (*tiling)(const Problem& p, Pass pass);
  std::size_t (*workspace_bytes)(const Problem& p, const Tiling& t, Pass pass);
  /// Launches on `stream` (a cudaStream_t, null for the default) without waiting. Throws Unsupported,
  /// LibraryMissing, CudaError.
  void (*launch)(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream);
};

/// Every compiled kernel; empty in a build without CUDA.
const std::vector<Kernel>& kernels();

/// The kernel of that name (and variant); null where there is none.
const Kernel* find_kernel(const std::string& name, const std::string& variant = "");

// ------------------------------------------------------------------------- device, for callers without CUDA
// types

struct DeviceInfo {
  std::string name;
  int sm_count = 0;
  int compute_capability = 0;  ///< 90 for sm_90
  std::int64_t memory_bytes = 0, l2_bytes = 0;
  int shared_memory_per_block = 0, shared_memory_per_sm = 0;
  int driver_version = 0, runtime_version = 0;  ///< as CUDA gives them, 13000 for 13.0
};

/// Why no GPU can be used ("built without CUDA", "no driver", "no device", ...); empty where one can.
std::string why_no_gpu();
/// Why standard-cublas cannot run; empty where cuBLAS can be opened.
std::string why_no_cublas();
/// Throws CudaError where why_no_gpu() is not empty.
DeviceInfo device_info();

/// Device memory that frees itself.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes);
  DeviceBuffer(DeviceBuffer&& o) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& o) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  void copy_from_host(const void* host, std::size_t bytes);
  void copy_to_host(void* host, std::size_t bytes) const;
  void fill_bytes(int value);  ///< every byte; 0xff poisons floating-point tensors with NaN

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

void synchronize();

/// Seconds each of `repeats` launches took, by CUDA events, in blocks that begin with a rest and at least
/// `warmup` uncounted launches (common/rested_blocks.h). `flush_l2` overwrites a buffer of several L2 sizes
/// before every launch.
std::vector<double> time_launches(const Kernel& kernel, const Problem& p, const Tiling& t, Pass pass,
                                  const Tensors& x, int warmup, int repeats, bool flush_l2);

}  // namespace flashsim::gpu

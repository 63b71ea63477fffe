// FlashAttention-3 (Shah et al. 2024) in the registry: what it computes, with which tiles, and its variants.
#include "gpu_kernels/common/check.h"
#include "gpu_kernels/common/dispatch.h"
#include "gpu_kernels/common/registry.h"
#include "gpu_kernels/common/visible.cuh"
#include "gpu_kernels/fa3/instances.h"

namespace flashsim::gpu {
namespace fa3 {
namespace {

/// Why the current device cannot run it; empty where it can, or where there is none to ask.
std::string fault_of_device() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    cudaGetLastError();  // not an error here, nor of the next call that asks
    return {};
  }
  if (major == 9 && minor == 0) return {};
  return "the device has compute capability " + std::to_string(major) + "." + std::to_string(minor) +
         "; fa3 uses instructions that only 9.0 has (H100, H200)";
}

/// Masked: as many heads take turns as `resident` bytes hold of K and V. Where that leaves less than two
/// thirds of a section over, fewer, in sections of about the same size: a few heads left over would work on
/// their long tiles alone, while other SMs have nothing to do.
int heads_together(const Problem& p, std::int64_t resident) {
  const std::int64_t all = std::int64_t{p.batch} * p.heads_kv, fit = heads_within(p, resident) / p.group();
  const std::int64_t left_over = (all - 1) % fit + 1, sections = (all + fit - 1) / fit;
  return int(3 * left_over >= 2 * fit ? fit : (all + sections - 1) / sections) * p.group();
}

/// Whether the compiled kernel can keep tiles for the end of the launch.
bool keeps_late_tiles(const Problem& p) {
  return p.masked() && p.dtype == Dtype::e4m3 && padded_head_dim(p.head_dim) <= 128;
}

Tiling tiling(const Problem& p, Pass) {
  const int dim = padded_head_dim(p.head_dim);
  Tiling t;
  t.block_q = kBlockQ;
  t.block_k = p.dtype == Dtype::e4m3 ? kFp8Block : block_k(dim);
  t.stages = stages_of(dim, p.dtype == Dtype::e4m3, p.masked());
  t.warps = t.block_q / 16;
  t.order = p.masked() ? BlockOrder::last_to_first : BlockOrder::first_to_last;
  t.key_order = BlockOrder::last_to_first;  // masked tiles first
  if (p.masked()) t.heads_together = heads_together(p, resident_bytes(dim, p.dtype == Dtype::e4m3));
  // So that sections that small do not cost a tail.
  if (keeps_late_tiles(p)) t.late_blocks = ceil_div(p.seqlen_q, kBlockQ) / 4;
  return t;
}

/// e4m3: the tensors are fp16, and quantised here.
std::string fault_of_problem(const Problem& p, const Tiling& t) {
  Problem given = p;
  if (p.dtype == Dtype::e4m3) given.dtype = Dtype::fp16;
  std::string found = fault_of_16_bit_problem(given);
  if (found.empty() && p.dtype == Dtype::e4m3 && t.fp8_incoherent_processing &&
      (p.head_dim & (p.head_dim - 1)) != 0)
    return "in e4m3 head_dim must be a power of two, for the Hadamard matrix; it is " +
           std::to_string(p.head_dim);
  if (found.empty() && p.dtype == Dtype::e4m3 && std::int64_t{p.batch} * p.heads_q > 65535)
    return "in e4m3 there may be up to 65535 heads, over all of the batch";  // a grid's second dimension
  return found;
}

std::string fault(const Problem& p, const Tiling& t, Pass pass) {
  if (pass == Pass::backward) return "fa3 has no backward pass; use fa2";
  std::string found = fault_of_problem(p, t);
  if (found.empty()) found = fault_of(t);
  if (!found.empty()) return found;
  Tiling compiled = tiling(p, pass);
  found = fault_of_blocks(t, compiled.block_q, compiled.block_k);
  if (!found.empty()) return found;
  // Told at run time.
  if (p.masked()) compiled.heads_together = t.heads_together;
  if (keeps_late_tiles(p)) compiled.late_blocks = t.late_blocks;
  if (p.dtype == Dtype::e4m3) {
    compiled.fp8_block_scales = t.fp8_block_scales;
    compiled.fp8_incoherent_processing = t.fp8_incoherent_processing;
  }
  if (p.masked() && p.dtype != Dtype::e4m3) compiled.order = t.order;
  if (t.order != compiled.order)
    return std::string("fa3's tiles come ") +
           (p.masked() ? "last to first in e4m3" : "first to last without a mask") +
           "; they have both orders under a mask in fp16 and bf16";
  if (t != compiled) return "compiled is only: " + describe(compiled) + "; asked for was: " + describe(t);
  if (p.dropout_p > 0) return "fa3 has no dropout; use fa2";
  const std::int64_t q_tiles = (p.seqlen_q + t.block_q - 1) / t.block_q;
  found = fault_of_grid((q_tiles + 1) * p.batch * p.heads_q);
  return found.empty() ? fault_of_device() : found;
}

/// The counter of the dynamic schedule; for e4m3 also the quantised tensors and their scales.
std::size_t workspace_bytes(const Problem& p, const Tiling&, Pass) {
  return p.dtype == Dtype::e4m3 ? static_cast<std::size_t>(fp8_workspace(p).bytes)
                                : sizeof(unsigned long long);
}

void need_tensors(const Instance& instance, const Problem& p, const Tensors& x) {
  for (const auto& [tensor, name] : {std::pair{x.q, "q"}, {x.k, "k"}, {x.v, "v"}}) need(tensor, "fa3", name);
  need(x.o, "fa3", "o");
  if (p.dtype == Dtype::e4m3 || instance.schedule == Schedule::dynamic) need(x.workspace, "fa3", "workspace");
}

Instance instance_for(const Problem& p) {
  const int dim = padded_head_dim(p.head_dim);
  if (p.dtype == Dtype::e4m3) return forward_fp8(dim, p.masked());
  return p.dtype == Dtype::fp16 ? forward_fp16(dim, p.masked()) : forward_bf16(dim, p.masked());
}

void run(const Instance& instance, const Problem& p, const Tiling& t, const Tensors& x, void* stream) {
  need_tensors(instance, p, x);
  if (p.dtype == Dtype::e4m3) fp8_quantise(p, t, x, stream);
  launch_forward(instance, p, t, x, stream);
}
void run_fastest(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream) {
  refuse_faults("fa3", fault(p, t, pass));
  run(instance_for(p), p, t, x, stream);
}

std::string fp8_forward_fault(const Problem& p, const Tiling& t, Pass pass) {
  if (p.dtype != Dtype::e4m3) return "only e4m3 problems are quantised before the forward kernel";
  return fault(p, t, pass);
}
void run_fp8_forward(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream) {
  refuse_faults("fa3", fp8_forward_fault(p, t, pass));
  const Instance instance = instance_for(p);
  need_tensors(instance, p, x);
  launch_forward(instance, p, t, x, stream);
}

constexpr const char* kVariants[][2] = {
    {"online-max",
     "as published: the exponentials wait for the maximum, the warpgroups take turns (not in e4m3)"},
    {"no-specialisation", "as online-max, but a computing thread does the loads in between"},
    {"no-pingpong", "as online-max, but the warpgroups do not take turns at the tensor cores"},
    {"no-overlap", "as online-max, but each product waits for the softmax before it"},
    {"static", "as fa3, tiles dealt out beforehand"},
    {"dynamic", "as fa3, the next tile to whoever asks first"},
};
constexpr int kOnlineMax = 0;  // the variant that is compiled for e4m3, too
template <int I>
std::string variant_fault(const Problem& p, const Tiling& t, Pass pass) {
  const bool compiled =
      p.dtype == Dtype::e4m3 ? I == kOnlineMax : p.dtype == Dtype::fp16 && padded_head_dim(p.head_dim) == 128;
  if (!compiled)
    return "fa3's variants are compiled for fp16 and head_dim 72 to 128 only, online-max for e4m3, too";
  return fault(p, t, pass);
}
template <int I>
void run_variant(const Problem& p, const Tiling& t, Pass pass, const Tensors& x, void* stream) {
  refuse_faults("fa3", variant_fault<I>(p, t, pass));
  run(p.dtype == Dtype::e4m3 ? forward_fp8(padded_head_dim(p.head_dim), p.masked(), true)
                             : forward_variant(kVariants[I][0], p.masked()),
      p, t, x, stream);
}
template <int... I>
std::vector<Kernel> list(std::integer_sequence<int, I...>) {
  return {
      {"fa3", "",
       "a warp loads by TMA, warpgroups on wgmma hide softmax behind the products and take an old maximum",
       fault, tiling, workspace_bytes, run_fastest},
      {"fa3", "fp8-forward-only",
       "as fa3 in e4m3, but takes what fa3 left in the workspace: the forward kernel without quantisation",
       fp8_forward_fault, tiling, workspace_bytes, run_fp8_forward},
      {"fa3", kVariants[I][0], kVariants[I][1], variant_fault<I>, tiling, workspace_bytes,
       run_variant<I>}...};
}

}  // namespace
}  // namespace fa3

std::vector<Kernel> fa3_kernels() {
  return fa3::list(std::make_integer_sequence<int, int(std::size(fa3::kVariants))>{});
}

}  // namespace flashsim::gpu

#include "simulator/machine/gpu.h"

#include <algorithm>
#include <cctype>

namespace flashsim {
namespace {

constexpr std::int64_t KiB = 1024, MiB = 1024 * KiB, GB = 1'000'000'000;
constexpr double T = 1e12;

constexpr std::string_view a100_source =
    "NVIDIA A100 data sheet (2021) and GA100 white paper; L2 5,120 bytes a clock";
constexpr std::string_view hopper_source =
    "NVIDIA H100 data sheet and white paper; L2 rate as the FlashAttention-3 paper gives it";

constexpr Gpu a100(std::string_view name, std::string_view title, double bytes_per_s, std::int64_t bytes) {
  Gpu g;
  g.name = name;
  g.title = title;
  g.hbm_bytes_per_s = bytes_per_s;
  g.hbm_bytes = bytes;
  g.l2_bytes = 40 * MiB;
  g.l2_partitions = 2;
  g.l2_bytes_per_s = 5120 * 1.41e9;
  g.sm_count = 108;
  g.clock_hz = 1.41e9;
  g.l1_and_shared_bytes_per_sm = 192 * KiB;
  g.shared_bytes_per_sm = 164 * KiB;
  g.shared_bytes_per_block = 163 * KiB;
  g.fp16_flops = 312 * T;
  g.fp32_flops = 19.5 * T;
  g.fp64_flops = 19.5 * T;
  g.source = a100_source;
  return g;
}

constexpr Gpu hopper(std::string_view name, std::string_view title, double bytes_per_s, std::int64_t bytes,
                     std::int64_t l2_bytes, std::string_view source) {
  Gpu g;
  g.name = name;
  g.title = title;
  g.hbm_bytes_per_s = bytes_per_s;
  g.hbm_bytes = bytes;
  g.l2_bytes = l2_bytes;
  g.l2_partitions = 2;
  g.l2_bytes_per_s = 12 * T;
  g.sm_count = 132;
  g.clock_hz = 1.83e9;  // 989.4 TFLOP/s = 132 SMs x 4,096 FLOPs a clock x this
  g.l1_and_shared_bytes_per_sm = 256 * KiB;
  g.shared_bytes_per_sm = 228 * KiB;
  g.shared_bytes_per_block = 227 * KiB;
  g.fp16_flops = 989.4 * T;
  g.fp8_flops = 1978.9 * T;
  g.fp32_flops = 66.9 * T;
  g.fp64_flops = 66.9 * T;
  g.source = source;
  return g;
}

constexpr Gpu rtx4090() {
  Gpu g;
  g.name = "rtx4090";
  g.title = "NVIDIA GeForce RTX 4090";
  g.hbm_bytes_per_s = 1.008 * T;
  g.hbm_bytes = 24 * GB;
  g.l2_bytes = 72 * MiB;
  g.l2_partitions = 1;
  g.l2_bytes_per_s = 0;
  g.sm_count = 128;
  g.clock_hz = 2.52e9;
  g.l1_and_shared_bytes_per_sm = 128 * KiB;
  g.shared_bytes_per_sm = 100 * KiB;
  g.shared_bytes_per_block = 99 * KiB;
  g.threads_per_sm = 1536;
  g.blocks_per_sm = 24;
  g.fp16_flops = 165.2 * T;
  g.fp8_flops = 330.3 * T;
  g.fp32_flops = 82.6 * T;
  g.fp64_flops = 1.29 * T;
  g.spec_only = true;
  g.source =
      "NVIDIA Ada GPU architecture white paper; GDDR6X memory, rates with fp32 sums; L2 rate not stated";
  return g;
}

constexpr Gpu b200() {
  Gpu g;
  g.name = "b200";
  g.title = "NVIDIA B200 SXM";
  g.hbm_bytes_per_s = 8 * T;
  g.hbm_bytes = 180 * GB;
  g.l2_bytes = 126 * MiB;
  g.l2_partitions = 2;
  g.sm_count = 148;
  g.clock_hz = 1.85e9;
  g.l1_and_shared_bytes_per_sm = 256 * KiB;
  g.shared_bytes_per_sm = 228 * KiB;
  g.shared_bytes_per_block = 227 * KiB;
  g.fp16_flops = 2250 * T;
  g.fp8_flops = 4500 * T;
  g.fp32_flops = 75 * T;
  g.fp64_flops = 37 * T;
  g.spec_only = true;
  g.source = "NVIDIA DGX B200 data sheet, one eighth of the system; clock from the rates; L2 rate not stated";
  return g;
}

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}
bool contains(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same_letter) != text.end();
}

}  // namespace

double Gpu::matmul_flops(Dtype operands) const {
  switch (operands) {
    case Dtype::fp64: return fp64_flops;
    case Dtype::fp32: return fp32_flops;
    case Dtype::fp16:
    case Dtype::bf16: return fp16_flops;
    case Dtype::e4m3: return fp8_flops;
  }
  return 0;
}

int Gpu::blocks_that_fit(std::int64_t shared_bytes, int threads, int registers_per_thread) const {
  if (shared_bytes > shared_bytes_per_block || threads > 1024) return 0;
  std::int64_t fit = blocks_per_sm;
  fit = std::min(
      fit, shared_bytes_per_sm / std::max<std::int64_t>(1, shared_bytes + shared_bytes_reserved_per_block));
  if (threads > 0) {
    const int warps = (threads + 31) / 32;
    fit = std::min<std::int64_t>(fit, threads_per_sm / (32 * warps));
    // Registers are handed out per warp, in units of 256.
    const int per_warp = (32 * registers_per_thread + 255) / 256 * 256;
    if (per_warp > 0) fit = std::min<std::int64_t>(fit, registers_per_sm / per_warp / warps);
  }
  return static_cast<int>(fit);
}

const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> all = {
      a100("a100-40", "NVIDIA A100 40 GB SXM", 1.555 * T, 40 * GB),
      a100("a100-80", "NVIDIA A100 80 GB SXM", 2.039 * T, 80 * GB),
      hopper("h100", "NVIDIA H100 SXM5", 3.35 * T, 80 * GB, 50 * MiB, hopper_source),
      hopper("h200", "NVIDIA H200 SXM", 4.8 * T, 141 * GB, 60 * MiB,
             "NVIDIA H200 data sheet; compute and L2 rate as H100; L2 size and SM count as the driver "
             "reports them "
             "(2026-11-29)"),
      rtx4090(),
      b200(),
  };
  return all;
}

const Gpu* find_gpu(std::string_view name) {
  for (const Gpu& g : gpus())
    if (std::equal(name.begin(), name.end(), g.name.begin(), g.name.end(), same_letter)) return &g;
  return nullptr;
}

const Gpu* gpu_of_device(std::string_view device_name) {
  // PCIe and NVL cards have other clocks and memories than the modules listed here, MIG slices fewer SMs.
  for (const char* other : {"PCIe", "NVL", "MIG ", "GH200", "GB200", "Laptop", "4090 D"})
    if (contains(device_name, other)) return nullptr;
  if (contains(device_name, "A100")) return find_gpu(contains(device_name, "80GB") ? "a100-80" : "a100-40");
  if (contains(device_name, "H100")) return find_gpu("h100");
  if (contains(device_name, "H200")) return find_gpu("h200");
  if (contains(device_name, "B200")) return find_gpu("b200");
  if (contains(device_name, "RTX 4090")) return find_gpu("rtx4090");
  return nullptr;
}

std::string gpu_names() {
  std::string all;
  for (const Gpu& g : gpus()) all += (all.empty() ? "" : ", ") + std::string(g.name);
  return all;
}

}  // namespace flashsim

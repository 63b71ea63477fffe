#include "simulator/machine/gpu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace flashsim;

TEST_CASE("every GPU is complete and found by its name in any case") {
  std::set<std::string_view> names;
  for (const Gpu& g : gpus()) {
    CAPTURE(g.name);
    CHECK(names.insert(g.name).second);
    CHECK(find_gpu(g.name) == &g);
    CHECK_FALSE(g.source.empty());
    CHECK(g.hbm_bytes > g.l2_bytes);
    CHECK(g.l2_bytes > 0);
    CHECK(g.l1_and_shared_bytes_per_sm >= g.shared_bytes_per_sm);
    CHECK(g.shared_bytes_per_sm == g.shared_bytes_per_block + g.shared_bytes_reserved_per_block);
    CHECK(g.hbm_bytes_per_s > 0);
    CHECK(g.matmul_flops(Dtype::bf16) == g.matmul_flops(Dtype::fp16));
    CHECK(g.matmul_flops(Dtype::fp16) > g.matmul_flops(Dtype::fp32));
    CHECK(g.flops_per_hbm_byte(Dtype::fp16) > 50);
    CHECK(gpu_names().find(g.name) != std::string::npos);
  }
  CHECK(find_gpu("H200") == find_gpu("h200"));
  CHECK(find_gpu("h20") == nullptr);
  CHECK(find_gpu("") == nullptr);
}

TEST_CASE("the rates agree with what the units do in a clock") {
  // Dense fp16 products with fp32 sums: 2,048 (GA100), 4,096 (GH100), 512 (AD102) FLOPs a clock and SM.
  const auto per_clock = [](const char* name) {
    const Gpu& g = *find_gpu(name);
    return g.fp16_flops / g.clock_hz / g.sm_count;
  };
  CHECK(per_clock("a100-40") == doctest::Approx(2048).epsilon(0.002));
  CHECK(per_clock("h200") == doctest::Approx(4096).epsilon(0.002));
  CHECK(per_clock("rtx4090") == doctest::Approx(512).epsilon(0.002));
  // FlashAttention-3's paper: 3.9 TFLOP/s of exp, shared memory at 31 TB/s; FlashAttention's: about 19 TB/s.
  CHECK(find_gpu("h100")->exp_per_s() == doctest::Approx(3.9e12).epsilon(0.02));
  CHECK(find_gpu("h100")->shared_bytes_per_s() == doctest::Approx(31e12).epsilon(0.01));
  CHECK(find_gpu("a100-40")->shared_bytes_per_s() == doctest::Approx(19e12).epsilon(0.03));
}

TEST_CASE("a driver's device names") {
  CHECK(gpu_of_device("NVIDIA A100-SXM4-40GB") == find_gpu("a100-40"));
  CHECK(gpu_of_device("NVIDIA A100-SXM4-80GB") == find_gpu("a100-80"));
  CHECK(gpu_of_device("NVIDIA H100 80GB HBM3") == find_gpu("h100"));
  CHECK(gpu_of_device("NVIDIA H200") == find_gpu("h200"));
  CHECK(gpu_of_device("NVIDIA GeForce RTX 4090") == find_gpu("rtx4090"));
  CHECK(gpu_of_device("NVIDIA B200") == find_gpu("b200"));
  for (const char* other : {"NVIDIA H100 PCIe", "NVIDIA H200 NVL", "NVIDIA GH200 480GB", "NVIDIA GB200",
                            "NVIDIA A100-PCIE-40GB", "NVIDIA GeForce RTX 4090 Laptop GPU", "Tesla V100", ""})
    CHECK(gpu_of_device(other) == nullptr);
}

TEST_CASE("thread blocks that fit an SM: shared memory, threads and registers") {
  const Gpu& h200 = *find_gpu("h200");
  CHECK(h200.blocks_that_fit(64 * 1024, 128, 255) == 2);   // FA2 at d = 128: registers, 255 x 128 twice
  CHECK(h200.blocks_that_fit(208 * 1024, 384, 168) == 1);  // FA3: shared memory
  CHECK(h200.blocks_that_fit(113 * 1024, 128, 64) == 2);   // 2 x (113 + 1) KiB are all of it
  CHECK(h200.blocks_that_fit(114 * 1024, 128, 64) == 1);
  CHECK(h200.blocks_that_fit(228 * 1024, 128, 64) == 0);  // more than a block may have
  CHECK(h200.blocks_that_fit(0, 2048, 16) == 0);
  CHECK(h200.blocks_that_fit(0, 1024, 32) == 2);
  CHECK(h200.blocks_that_fit(0, 32, 16) == 32);
}

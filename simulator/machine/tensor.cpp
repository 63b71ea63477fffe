#include "simulator/machine/tensor.h"

#include <array>

namespace flashsim {
namespace {
constexpr std::array<std::string_view, tensor_count> names = {
    "Q",     "K",      "V",      "O",        "LSE",     "S",       "P",         "l",
    "m",     "dO",     "D",      "dQ",       "dK",      "dV",      "dP",        "dS",
    "O_sum", "dQ_sum", "O_part", "LSE_part", "l_part",  "m_part",  "P_dropped", "dropout_mask",
    "Q8",    "K8",     "V8",     "Q_scale",  "K_scale", "V_scale", "correction"};
}  // namespace

std::string_view name_of(Tensor x) { return x == Tensor::count ? "?" : names[static_cast<int>(x)]; }

Tensor tensor_named(std::string_view name) {
  for (int i = 0; i < tensor_count; ++i)
    if (names[i] == name) return static_cast<Tensor>(i);
  return Tensor::count;
}

int rows_of(Tensor x, const Problem& p, const Tiling& t) {
  const auto tiles = [](int n, int block) { return (n + block - 1) / block; };
  switch (x) {
    case Tensor::Q_scale: return tiles(p.seqlen_q, t.block_q);
    case Tensor::K_scale: return tiles(p.seqlen_k, t.block_k);
    case Tensor::V_scale: return 1;
    default: return is_key_side(x) ? p.seqlen_k : p.seqlen_q;
  }
}

}  // namespace flashsim

// The tensors of attention by name: their shape per head and their dtype in memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "cpu_reference/problem.h"

namespace flashsim {

/// Everything a schedule may load, store or compute.
enum class Tensor : std::uint8_t {
  // forward
  Q,
  K,
  V,
  O,
  LSE,
  // scores, probabilities, row sums and row maxima
  S,
  P,
  l,
  m,
  // backward; D = rowsum(dO o O)
  dO,
  D,
  dQ,
  dK,
  dV,
  dP,
  dS,
  // scratch in HBM: fp32 sums, and the parts of split keys
  O_sum,
  dQ_sum,
  O_part,
  LSE_part,
  l_part,
  m_part,
  // eager frameworks keep P after dropout and the mask, one byte an element
  P_dropped,
  dropout_mask,
  // e4m3 copies and their scales
  Q8,
  K8,
  V8,
  Q_scale,
  K_scale,
  V_scale,
  // exp(m_old - m_new); on chip only
  correction,
  count
};
inline constexpr int tensor_count = static_cast<int>(Tensor::count);

std::string_view name_of(Tensor x);
/// The tensor of that name; Tensor::count where there is none.
Tensor tensor_named(std::string_view name);

/// One number a row: l, m, LSE, D, LSE_part, correction.
constexpr bool is_row_vector(Tensor x) {
  return x == Tensor::l || x == Tensor::m || x == Tensor::LSE || x == Tensor::D || x == Tensor::LSE_part ||
         x == Tensor::l_part || x == Tensor::m_part || x == Tensor::correction;
}
/// (seqlen_q, seqlen_k): what FlashAttention never writes to HBM.
constexpr bool is_score_shaped(Tensor x) {
  return x == Tensor::S || x == Tensor::P || x == Tensor::dP || x == Tensor::dS || x == Tensor::P_dropped ||
         x == Tensor::dropout_mask;
}
/// One number a tile (Q_scale, K_scale) or a head (V_scale).
constexpr bool is_scale(Tensor x) {
  return x == Tensor::Q_scale || x == Tensor::K_scale || x == Tensor::V_scale;
}
/// Stored once per K/V head, with seqlen_k rows.
constexpr bool is_key_side(Tensor x) {
  return x == Tensor::K || x == Tensor::V || x == Tensor::dK || x == Tensor::dV || x == Tensor::K8 ||
         x == Tensor::V8 || x == Tensor::K_scale || x == Tensor::V_scale;
}

/// Held once for every split or chunk of the keys (Block::part).
constexpr bool is_part(Tensor x) {
  return x == Tensor::O_part || x == Tensor::LSE_part || x == Tensor::l_part || x == Tensor::m_part;
}
/// Rows of the tensor in one head (of parts: in one part); scales have one row a tile of `t`.
int rows_of(Tensor x, const Problem& p, const Tiling& t);
/// Columns of the tensor.
inline int cols_of(Tensor x, const Problem& p) {
  return is_score_shaped(x) ? p.seqlen_k : is_row_vector(x) || is_scale(x) ? 1 : p.head_dim;
}
/// Heads of the tensor in one batch entry.
inline int heads_of(Tensor x, const Problem& p) { return is_key_side(x) ? p.heads_kv : p.heads_q; }

/// fp64 problems accumulate in fp64, all others in fp32.
constexpr Dtype accumulator(const Problem& p) { return p.dtype == Dtype::fp64 ? Dtype::fp64 : Dtype::fp32; }

/// The dtype a tensor has in HBM. Inputs and outputs have the problem's; row statistics, scales and sums are
/// wide; an e4m3 problem gets its inputs and gives its output in fp16, and quantises them itself.
constexpr Dtype dtype_in_hbm(Tensor x, const Problem& p) {
  if (is_row_vector(x) || is_scale(x) || x == Tensor::O_sum || x == Tensor::dQ_sum || x == Tensor::O_part)
    return accumulator(p);
  if (x == Tensor::Q8 || x == Tensor::K8 || x == Tensor::V8) return Dtype::e4m3;
  return p.dtype == Dtype::e4m3 ? Dtype::fp16 : p.dtype;
}
/// Bytes an element takes in HBM (of a dropout mask: one).
constexpr int bytes_in_hbm(Tensor x, const Problem& p) {
  return x == Tensor::dropout_mask ? 1 : bytes_of(dtype_in_hbm(x, p));
}

}  // namespace flashsim

// Rounding to the dtypes of Problem, bit for bit: IEEE 754 binary16 (fp16), bfloat16 (bf16) and the OCP 8-bit
// format E4M3 (e4m3: no infinity, one NaN code per sign, largest value 448). Always to nearest, ties to even,
// with subnormals. Rounding from float64 goes to the target in one step, never through float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_reference/problem.h"

namespace flashsim {

/// What becomes of values beyond the largest finite e4m3 value (fp16 and bf16 overflow to infinity):
/// `saturate` gives +-448 also for infinities, as GPU conversions do; `nan` gives NaN, as E4M3 without
/// saturation. NaN stays NaN either way.
enum class Overflow : std::uint8_t { saturate, nan };

/// Half the distance from 1 to the next larger value: the relative error of rounding in the normal range.
constexpr double unit_roundoff(Dtype t) {
  return t == Dtype::fp64   ? 0x1p-53
         : t == Dtype::fp32 ? 0x1p-24
         : t == Dtype::fp16 ? 0x1p-11
         : t == Dtype::bf16 ? 0x1p-8
                            : 0x1p-4;
}

/// Smallest positive value, which is also the distance between neighbouring subnormals.
constexpr double smallest_positive(Dtype t) {
  return t == Dtype::fp64   ? 0x1p-1074
         : t == Dtype::fp32 ? 0x1p-149
         : t == Dtype::fp16 ? 0x1p-24
         : t == Dtype::bf16 ? 0x1p-133
                            : 0x1p-9;
}

constexpr double largest_finite(Dtype t) {
  return t == Dtype::fp64   ? 0x1.fffffffffffffp+1023
         : t == Dtype::fp32 ? 0x1.fffffep+127
         : t == Dtype::fp16 ? 65504.0
         : t == Dtype::bf16 ? 0x1.fep+127
                            : 448.0;
}

/// The value of `x` after conversion to `t` and back. fp32 (and for float also fp64) leaves a float as it is.
float rounded(Dtype t, float x, Overflow overflow = Overflow::saturate);
double rounded(Dtype t, double x, Overflow overflow = Overflow::saturate);

/// The same in place for `n` elements at `x`; the loops vectorise.
void round_to(Dtype t, float* x, std::size_t n, Overflow overflow = Overflow::saturate);
void round_to(Dtype t, double* x, std::size_t n, Overflow overflow = Overflow::saturate);

/// The bits of `x` rounded to the format. A float argument converts to double without loss. NaN keeps its
/// sign and the upper bits of its payload and becomes quiet.
std::uint16_t encode_fp16(double x);
std::uint16_t encode_bf16(double x);
std::uint8_t encode_e4m3(double x, Overflow overflow = Overflow::saturate);

/// The value of a code; every code of the three formats is exact in float32.
float decode_fp16(std::uint16_t code);
float decode_bf16(std::uint16_t code);
float decode_e4m3(std::uint8_t code);

}  // namespace flashsim

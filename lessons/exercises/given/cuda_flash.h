// What exercise 12 is written against.
#pragma once

/// One attention problem in fp32. Q, O are (heads, n_q, 64), K, V are (heads, n_k, 64), LSE is (heads, n_q),
/// all row-major in device memory. Causal masks are aligned bottom-right: query q sees keys 0 ... q + n_k -
/// n_q. A query that sees nothing has O = 0 and LSE = -infinity.
struct FlashProblem {
  int heads, n_q, n_k;
  bool causal;
  float scale;
};
constexpr int head_dim = 64;

/// What the exercise defines: launches one kernel that computes O and LSE without an (n_q, n_k) matrix in
/// memory.
void flash_forward(const float* q, const float* k, const float* v, float* o, float* lse,
                   const FlashProblem& p);

// Componentwise error bounds: how far each single element of a result may be from the oracle. tolerance.h
// bounds all elements by the largest one; a dropped key of a thousand hides below that. Here element e of a
// result may be off by
//
//   min(relative * size[e] + absolute, cap)
//
// where size[e] is what the same sum gives when every product in it counts with its magnitude (Higham,
// Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 3.1: |error| <= gamma sum |x_i y_i|).
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "cpu_reference/problem.h"

namespace flashsim {

/// The sizes of one problem's results, in their shapes, and what the bounds need besides. With z_ij the
/// dropout factor, G_ij = z_ij sum_c |dO_ic v_jc| and D_i = sum_j P_ij G_ij:
struct ResultSizes {
  std::vector<double> o;   ///< sum_j z_ij P_ij |v_jc|
  std::vector<double> dq;  ///< scale sum_j P_ij (G_ij + D_i) |k_jc|
  std::vector<double> dk;  ///< scale sum_i P_ij (G_ij + D_i) |q_ic|
  std::vector<double> dv;  ///< sum_i z_ij P_ij |dO_ic|

  double logit = 0;                     ///< scale max_i |q_i| max_j |k_j| (Euclidean)
  double q = 0, k = 0, v = 0, d_o = 0;  ///< largest element
  double dp = 0;                        ///< max_i |dO_i| max_j |v_j|
  double spread = 0;       ///< max_i (visible keys of i) exp(m_i - LSE_i): how many times its largest P a row
                           ///< counts at most, hence how much of it numbers too small to be normal can be
  double column_mass = 0;  ///< max_j sum_i P_ij
};

/// Measures them; q, k, v, d_o as in oracle.h; an empty d_o: forward only. Non-finite elements count as 0 in
/// the numbers; in the tensors they spoil what they spoil in the results. Throws ShapeError.
ResultSizes result_sizes(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                         const std::vector<double>& v, const std::vector<double>& d_o);

/// Where an algorithm rounds, beyond its operands and its results.
struct KernelRoundings {
  bool stores_scores = false;    ///< S, P, dP, dS go through memory in the problem's dtype (standard)
  bool rounds_p = false;         ///< dS is computed from P in the problem's dtype, otherwise from fp32
  int output_visits = 1;         ///< how often O (dQ) is stored in the problem's dtype (FA1, narrow: T_c)
  int tiles = 1;                 ///< how often a row is rescaled at most
  double exponential = 0x1p-21;  ///< relative error of the exponential function used
  double flushed = 0;            ///< exponentials below this become 0 (PTX ex2.approx.ftz: 2^-126)
  double headroom = 1;  ///< forward: how large exp(S - m) may become because m may lag behind the maximum
};

struct ElementBound {
  double relative = 0, absolute = 0;
  double cap =
      std::numeric_limits<double>::infinity();  ///< no error is larger, whatever the scores' rounding

  /// What an element of this size may be off by. NaN or infinite only by a fault of the bound or of the size,
  /// as long as the cap is finite: callers must refuse to compare with such a tolerance.
  double tolerance(double size) const {
    if (std::isnan(size) || std::isnan(relative) || std::isnan(absolute)) return size + relative + absolute;
    const double linear = relative * size + absolute;  // NaN for infinite times 0: bounds nothing
    return linear <= cap ? linear : cap;
  }
};
struct ElementBounds {
  ElementBound o, dq, dk, dv;
  double lse = 0;  ///< absolute
};

/// With u the unit roundoff of the problem's dtype, t half its smallest positive number, w that of fp32,
/// x = KernelRoundings::exponential, n = seqlen_k, N = group * seqlen_q, d = head_dim, z = 1 / (1 -
/// dropout_p), b = 1 where scores are stored, c = 1 where P alone is rounded for dS (rounds_p), F =
/// KernelRoundings::flushed, h = headroom:
///   score    s    = logit ((d + 2) w + b u) + b t
///   exp      rho  = expm1(2 s + 4 logit w + x + tiles (x + 2 w) + 4 w), relative
///   O        f    = expm1(2 rho + 2 n (w + h F) + u + visits u),
///            absolute a = z v ((b ? n : spread) t + spread h F) + visits t
///   LSE      s + min(rho, 2 log(1 + rho)) + n (w + h F) + 4 (logit + log n + 2) w
///   P again  pi   = 2 rho + LSE + b u
///   dV       expm1(pi + 2 u + N w),  z d_o N (t + F) + t
///   dS       E    = pi + (2 d + n + 8) w + (1 + 2 b + c) u + (b ? pi + 2 u + n w : f)
///   dQ       expm1(E + n w + visits u),  scale k (n (t + 2 z dp ((b + c) t + F)) + d d_o a) + visits t
///   dK       expm1(E + N w + u),  scale q (N (t + 2 z dp ((b + c) t + F)) + column_mass d d_o a) + t
///
/// Where F comes from. Forward, a key's exponential is relative to a maximum m that lags behind the row's by
/// h at most, and it is lost when it, or a factor exp(m_old - m_new) that it meets later, is below F.
/// Relative to the maximum m_new of that moment it was h F at most, and is no more relative to the last one;
/// so a row loses h F of its largest P with each visible key, spread h F in all, and l, which is 1 or more,
/// loses n h F. Backward, P = exp(S - LSE) is one exponential: F is what P, P |dO| and P (dP - D) lose.
///
/// These grow exponentially with the scores' rounding, and where stored scores round by dozens (fp16 logits
/// of 1e4) they bound nothing. But a P in [0, g] never differs from another by more than g, which is about 1,
/// and rows of P sum to g at most. With the roundings that know no logits and those of fp32 scores, the only
/// ones by which P can exceed 1 (P computed again: exp(S' - LSE) with S' and LSE rounded apart),
///   growth   g = exp(2 logit (d + 2) w + 4 (logit + log n + 2) w + 2 (n + d + N + 8) w + (4 + visits) u
///                + 2 tiles (x + 2 w)),
/// both sides' rows in the convex hull of V (times z) and |dP|, |D| <= z dp give the caps, absolute errors
/// (what underflows) added:
///   O   2 g z v     dV   N g z d_o     dQ   4 g^3 z dp scale k     dK   N 4 g^3 z dp scale q
ElementBounds element_bounds(const Problem& p, const ResultSizes& sizes, const KernelRoundings& r);

}  // namespace flashsim

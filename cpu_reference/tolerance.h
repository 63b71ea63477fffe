// How far a correct implementation may be from the oracle: derived bounds, not tuned ones.
#pragma once

#include <vector>

#include "cpu_reference/problem.h"

namespace flashsim {

/// Magnitudes of the inputs that bounds are built from.
struct Magnitudes {
  double logit = 0;        ///< scale * max |q_i| * max |k_j| (Euclidean): bounds sum_c |q_ic k_jc| * scale
  double q = 0, k = 0;     ///< largest element
  double v = 0, d_o = 0;   ///< largest element
  double dp = 0;           ///< max |dO_i| * max |v_j| (Euclidean): bounds |dP| and |D|
  double column_mass = 0;  ///< max_j sum_i P_ij: how much weight one key collects
};

/// Measures them; q, k, v, d_o as in oracle.h (d_o may be empty: forward only). Non-finite elements count as
/// 0.
Magnitudes magnitudes_of(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                         const std::vector<double>& v, const std::vector<double>& d_o);

/// Where an algorithm rounds beyond what every algorithm does.
struct Roundings {
  int scores = 0;  ///< how often S is stored in the problem's dtype (flash: 0, textbook: 1, eager: 3)
  int output_visits =
      1;          ///< how often O (dQ) is stored in the problem's dtype (FA1 with narrow temporaries: T_c)
  int tiles = 1;  ///< T_c: how often a row is rescaled
};

/// Largest absolute error of each result.
struct Tolerance {
  double o = 0, lse = 0, dq = 0, dk = 0, dv = 0;
};

/// The worst case, with u the unit roundoff of the problem's dtype, w that of the accumulator, n = seqlen_k,
/// d = head_dim, T tiles, z = 1 / (1 - dropout_p), t the smallest positive number of the dtype (Higham,
/// Accuracy and Stability, ch. 3: a sum of n products has a relative error of n w of the sum of magnitudes):
///   score     s:   logit ((d + 2) w + scores u)
///   P              rho = expm1(2 s + 4 logit w + (8 + 6 T) w), relative
///   O              z v (2 rho + 2 n w + u + visits u) + z v n t: P rounded as an operand, O at each store
///   LSE            s + rho + n w + 4 (logit + log n) w
///   P again        pi = 2 rho + LSE (+ u where P was stored)
///   dV_j           z d_o (C (pi + 3 u + N w) + N t), C the column mass, N = group * seqlen_q
///   dS_ij          P_ij E, E = z dp (4 pi + (2 d + n + 8) w + (3 + 4 scores) u) + d d_o O
///   dQ_i           scale k (E + 2 z dp (n w + visits u) + n t)
///   dK_j           scale q (C (E + 2 z dp (N w + u)) + N t)
Tolerance tolerance_of(const Problem& p, const Magnitudes& m, const Roundings& r);

}  // namespace flashsim

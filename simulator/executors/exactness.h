// Whether an algorithm computes attention: its schedule's numbers against the oracle's, within derived
// bounds.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu_reference/oracle.h"
#include "cpu_reference/tolerance.h"
#include "simulator/executors/numeric.h"

namespace flashsim {

/// One result tensor against its truth. Elements that are NaN in both count as equal: inputs with NaN must
/// give it.
struct Comparison {
  Tensor result = Tensor::O;
  double error = 0;      ///< largest |got - expected|; infinite where only one is NaN or the sizes differ
  double tolerance = 0;  ///< what error may be
  std::int64_t at = 0;   ///< where the error is largest: index into the contiguous tensor
  double got = 0, expected = 0;

  bool ok() const { return error <= tolerance; }  // false for NaN
  /// Error as a share of the tolerance; 0 where there is no error.
  double share() const { return error == 0 ? 0 : error / tolerance; }
};

Comparison compare(Tensor result, const std::vector<double>& got, const std::vector<double>& expected,
                   double tolerance);

/// Where the algorithm rounds beyond what every algorithm does; see tolerance.h.
Roundings roundings_of(const Algorithm& a, const Problem& p, const Tiling& t);

/// For a schedule of unknown make: S stored once, O stored on every visit.
Roundings roundings_of_any(const Problem& p, const Tiling& t);

/// Inputs as contiguous tensors, already rounded to the dtype they have in HBM, and what the oracle makes of
/// them.
struct Truth {
  std::vector<double> q, k, v, d_o;  ///< d_o may be empty: forward only
  Magnitudes magnitudes;
  TensorForward forward;
  TensorGradients backward;
};

/// Rounds the inputs and runs the oracle. Throws ShapeError.
Truth truth_of(const Problem& p, std::vector<double> q, std::vector<double> k, std::vector<double> v,
               std::vector<double> d_o);

/// O, and LSE where the schedule stores it, of a forward pass. `results`, if given, receives the numbers.
std::vector<Comparison> check_forward(const Program& forward, const Roundings& roundings, const Problem& p,
                                      const Tiling& t, const Truth& truth, ForwardResult* results = nullptr);
/// dQ, dK and dV of a forward and a backward pass.
std::vector<Comparison> check_backward(const Program& forward, const Program& backward,
                                       const Roundings& roundings, const Problem& p, const Tiling& t,
                                       const Truth& truth, BackwardResult* results = nullptr);

}  // namespace flashsim

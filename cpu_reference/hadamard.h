// Incoherent processing for fp8 (FA3, Shah et al. 2024, sec. 3.3): Q and K are multiplied by the same random
// orthogonal matrix before they are rounded, which spreads outliers over all entries of a row and leaves
// Q K^T as it was. The matrix is a Walsh-Hadamard matrix times random signs, so a row takes d log d
// additions.
#pragma once

#include <cstdint>

#include "cpu_reference/oracle.h"

namespace flashsim {

/// The smallest power of two that is at least d: the length to which rows are padded with zeros where
/// head_dim is not a power of two. (The rotated row then has this many entries.) d from 1 to 2^30.
int hadamard_dim(int d);

/// x becomes H x / sqrt(n) in place, H the n x n Hadamard matrix in natural (Sylvester) order: an orthogonal,
/// symmetric matrix and hence its own inverse. Throws std::invalid_argument unless n is a power of two.
void hadamard_transform(float* x, int n);
void hadamard_transform(double* x, int n);

/// Every one of `rows` contiguous rows of n entries becomes H D x / sqrt(n), D the signs random_sign(seed, 0
/// ... n - 1) of random.h. Throws as above.
void rotate_rows(float* x, int rows, int n, std::uint64_t seed);
void rotate_rows(double* x, int rows, int n, std::uint64_t seed);

/// The rows of x (rows, d), padded and rotated: (rows, hadamard_dim(d)).
MatrixD rotated(const MatrixView& x, std::uint64_t seed);

}  // namespace flashsim

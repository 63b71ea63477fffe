// NumPy's .npy files, so that real tensors can be read and results taken back to Python. Format versions 1 to
// 3 (numpy.lib.format); float16, float32 and float64 in either byte order, C or Fortran order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu_reference/problem.h"

namespace flashsim {

/// A file that cannot be read or written, or is not what was expected. The message starts with the file's
/// name and says what was wrong, what was expected and what to do.
class NpyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct NpyArray {
  std::vector<int> shape;      ///< 2 to 4 lengths, each at least 1
  Dtype dtype = Dtype::fp64;   ///< as in the file: fp16, fp32 or fp64
  std::vector<double> values;  ///< in C order (last index fastest) whatever the file's order; exact
};

/// Most elements an array may have: 2^28, which as float64 are 2 GiB.
inline constexpr std::int64_t kNpyMaxElements = std::int64_t{1} << 28;

/// Reads one array of 2 to 4 dimensions; NaN and infinities are values like any other. Throws NpyError for
/// what is missing, not a regular file, not .npy, truncated, longer than its header says, of another dtype
/// (integers, objects, records), of another number of dimensions, empty or too large. Nothing is allocated
/// for the values before the file is known to hold them.
NpyArray read_npy(const std::filesystem::path& path);

/// Writes `values` (C order) as '<f2', '<f4' or '<f8', rounding to nearest even where dtype is narrower;
/// dtype fp16, fp32 or fp64. The file appears under its name complete or not at all: it is written beside it
/// and then renamed. An existing regular file is replaced. Throws NpyError.
void write_npy(const std::filesystem::path& path, const std::vector<int>& shape,
               const std::vector<double>& values, Dtype dtype);

}  // namespace flashsim

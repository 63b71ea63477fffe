// The header of a .npy file: a Python dictionary literal such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (12, 128, 32), }
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace flashsim {

struct NpyHeader {
  std::string descr;  ///< e.g. "<f4"; empty for a structured dtype
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< none negative
};

/// Text that is not such a dictionary; the message is the reason.
class NpyHeaderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws NpyHeaderError.
NpyHeader parse_npy_header(std::string_view text);

/// The text for an array in C order, without padding.
std::string npy_header_text(const std::string& descr, const std::vector<int>& shape);

}  // namespace flashsim

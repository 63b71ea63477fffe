// Numbers as people read them: sizes, counts and times with a unit.
#pragma once

#include <cstdint>
#include <string>

namespace flashsim {

/// Decimal units with three or four significant digits: "138 MB", "1.074 GB", "0 B".
std::string decimal_bytes(double bytes);
/// Binary units for on-chip memory: "72 KiB", "1.5 KiB", "20.25 MiB".
std::string binary_bytes(double bytes);
/// Decimal count with a suffix: "68.2 M", "962.1 G".
std::string count(double n);
/// "2.21 ms", "15.8 us".
std::string seconds(double s);
/// Digits in groups of three: "1,048,576".
std::string grouped(std::int64_t n);

}  // namespace flashsim

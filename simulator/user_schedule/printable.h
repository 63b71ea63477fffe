// Text from a program that nobody has looked at, made fit for a terminal, JSON and XML.
#pragma once

#include <string>
#include <string_view>

namespace flashsim {

/// `text` as valid UTF-8 without control characters but newline and tab: bytes that are no UTF-8, and
/// characters that could steer a terminal (C0, DEL, C1), become '?'.
std::string printable(std::string_view text);

}  // namespace flashsim

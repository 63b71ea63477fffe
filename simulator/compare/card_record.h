// What `flashsim sweep-l2` found out about a card, as a file.
#pragma once

#include <string>

#include "simulator/compare/record.h"
#include "simulator/executors/l2/card.h"

namespace flashsim {

inline constexpr int card_schema_version = 1;

std::string to_json(const Card& card);
/// The inverse. Throws RecordError, with what was expected.
Card card_from_json(const std::string& text);
/// Under which name a card's data are kept: "NVIDIA H200" in nvidia-h200.json.
std::string card_file_name(const std::string& device);

}  // namespace flashsim

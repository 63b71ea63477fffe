// The JSON that commands print: keys in a fixed order, headed by what it is and what it is about.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "cpu_reference/problem.h"
#include "simulator/cli/output.h"

namespace flashsim::cli {

using Json = nlohmann::ordered_json;

/// Raised when the meaning of an existing key changes, not when keys are added.
inline constexpr int json_schema_version = 1;

/// {"schema_version": 1, "flashsim_version": ..., "command": ...}
Json json_document(std::string_view command);

Json json_of(const Problem& p);
Json json_of(const Tiling& t);

void print_json(Output& out, const Json& document);

}  // namespace flashsim::cli

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace hooked {

/// The key under which transformers has written numbers that are not finite since December 2025:
/// `{"__float__": "Infinity"}`.
inline constexpr const char* kNotFiniteKey = "__float__";

/// Like parse_json, for files that Python's json module writes: `NaN`, `Infinity` and `-Infinity` are values,
/// too. They become the form above, so that a document survives being written again, and so that code that
/// reads a number there refuses it. Throws std::invalid_argument.
Json parse_python_json(std::string_view text, const JsonLimits& limits);

/// The word of a value in that form, else nothing.
std::optional<std::string> not_finite(const Json& value);

}  // namespace hooked

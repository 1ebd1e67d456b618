#pragma once

#include <fmt/format.h>

#include <string_view>

#include "hooked/core/error.h"
#include "hooked/core/model_config.h"

namespace hooked {

/// Throws ConfigError at the field unless the value is allowed.
template <class Value>
void expect(bool allowed, std::string_view field, const Value& value, std::string_view expected) {
  if (!allowed)
    throw ConfigError(field, fmt::format("value not allowed; expected {}, got {}", expected, value));
}

/// What the fields of a config must be together, where each is allowed by itself. Throws ConfigError.
void check_rules(const ModelConfig& config);

}  // namespace hooked

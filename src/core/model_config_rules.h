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

/// Rules between fields of a config whose single values are allowed. Throws ConfigError.
void check_rules(const ModelConfig& config);

}  // namespace hooked

#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/json_type.h"

namespace hooked {

/// A number as JSON: it has neither NaN, which becomes null, nor infinities, which become "inf" and "-inf".
inline Json number_json(double value) {
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

}  // namespace hooked
